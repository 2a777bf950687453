#include <cohort/qadam.hpp>

#include <string>
#include <utility>

#include <cohort/host/error.hpp>

namespace cohort {

QAdam::QAdam(std::vector<at::Tensor> parameters, torch::optim::AdamOptions options, int64_t warmup_steps)
    : QAdam({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(options), warmup_steps) {}

QAdam::QAdam(const std::vector<torch::optim::OptimizerParamGroup>& groups, torch::optim::AdamOptions options,
             int64_t warmup_steps)
    : torch::optim::Adam(groups, std::move(options)), warmup_steps_(warmup_steps) {
  if (warmup_steps >= 1) return;
  throw UserError("QAdam with " + std::to_string(warmup_steps) +
                  " warmup_steps: it needs steps of Adam before it keeps the second moment; give 1 or more");
}

}  // namespace cohort
