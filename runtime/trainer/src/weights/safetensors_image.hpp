// The bytes of a safetensors file, before they are written anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <cohort/safetensors.hpp>

namespace cohort {

class SafetensorsImage {
 public:
  /// Shares memory with tensors that are contiguous on the CPU. `file` stands in the messages of the UserErrors that
  /// write_safetensors throws.
  SafetensorsImage(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                   const std::string& file);

  /// To be written one after another; they borrow from this.
  std::vector<std::span<const std::byte>> parts() const;

 private:
  uint64_t header_bytes_ = 0;
  std::string header_;
  std::vector<at::Tensor> data_;
};

}  // namespace cohort
