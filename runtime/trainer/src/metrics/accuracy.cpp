#include <cohort/metrics.hpp>

namespace cohort {

at::Tensor accuracy(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.detach().argmax(-1).eq(labels).to(at::kFloat).mean();
}

}  // namespace cohort
