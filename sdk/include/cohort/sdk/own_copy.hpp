// A copy of a struct from the other side of the ABI, with the fields that these headers know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cohort::sdk {
inline namespace v1 {

/// Returns a copy with the struct_size of these headers: it leaves out fields that only `given` has, and zeroes fields
/// that `given` lacks. Use it to pass on a changed struct of the host. A plain copy would keep the host's struct_size,
/// and a newer host would read past the plugin's object.
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
