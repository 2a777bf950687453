#include "weights/named_tensors.hpp"

#include <bit>

#include "weights/sha256.hpp"

namespace cohort {

static_assert(std::endian::native == std::endian::little, "weights are hashed as they lie in memory");

std::string weights_digest(const torch::nn::Module& module) {
  Sha256 hash;
  for (const auto& [name, parameter] : named_parameters_of(module)) {
    const auto bytes = parameter.detach().to(at::kCPU).contiguous();
    hash.update({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  return hash.finish();
}

}  // namespace cohort
