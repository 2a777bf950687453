#include "streaming_copy.hpp"

#include <cstddef>
#include <cstdint>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <cohort/sdk/streaming.hpp>

namespace cohort {
namespace {

constexpr int64_t kLeastBytes = 1 << 20;    // below, it is in the cache still when it is communicated
constexpr int64_t kPieceBytes = 256 << 10;  // of a thread

bool is_alike(const at::Tensor& to, const at::Tensor& from) {
  return to.is_cpu() && from.is_cpu() && to.scalar_type() == from.scalar_type() && to.is_contiguous() &&
         from.is_contiguous() && !from.is_neg();
}

}  // namespace

void streaming_copy(const at::Tensor& to, const at::Tensor& from) {
  const auto nbytes = static_cast<int64_t>(to.nbytes());
  if (nbytes < kLeastBytes || !is_alike(to, from)) {
    to.copy_(from);
    return;
  }
  auto* const output = static_cast<std::byte*>(to.data_ptr());
  const auto* const input = static_cast<const std::byte*>(from.const_data_ptr());
  at::parallel_for(0, nbytes, kPieceBytes, [&](int64_t begin, int64_t end) {
    sdk::streaming_copy(output + begin, input + begin, static_cast<size_t>(end - begin));
    sdk::streaming_fence();  // whoever is told that the gradient is there sees all of it
  });
}

}  // namespace cohort
