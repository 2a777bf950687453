// A struct that another side of the ABI built, copied with the fields that these headers know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cohort::sdk {
inline namespace v1 {

/// Returns a copy whose struct_size is that of these headers: fields that only `given` has are left out, fields that it
/// lacks are zero. A plugin that passes a struct of the host on with changes makes it by this; a plain copy would keep
/// the host's struct_size, and a newer host would read behind the plugin's object.
template <class T>
T own_copy(const T& given) {
  T copy{};
  const std::size_t length = given.struct_size < sizeof copy ? given.struct_size : sizeof copy;
  std::memcpy(&copy, &given, length);
  copy.struct_size = static_cast<std::uint32_t>(sizeof copy);
  return copy;
}

}  // namespace v1
}  // namespace cohort::sdk
