#include <cohort/sync_batch_norm.hpp>

#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/var_mean.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cohort/host/error.hpp>
#include <cohort/step_driver.hpp>

namespace cohort {
namespace {

/// Over the batches of all ranks, for each channel; the number of elements is in double.
struct Statistics {
  at::Tensor mean, variance, count;
};

std::vector<int64_t> all_but_channels(int64_t dimensions) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < dimensions; ++i) {
    if (i != 1) all.push_back(i);
  }
  return all;
}

/// [C] as [1, C, 1, ...].
at::Tensor along_channels(const at::Tensor& values, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[1] = -1;
  return values.view(shape);
}

/// Puts the ranks' means and variances together, which loses no digits, unlike sums of squares.
Statistics statistics_over(StepDriver& ranks, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  const int64_t channels = input.size(1);
  const auto [variance, mean] = at::var_mean(input, all_but_channels(input.dim()), /*unbiased=*/false);
  const at::Tensor own_count = at::full({1}, static_cast<double>(input.numel() / channels),
                                        input.options().dtype(at::kDouble).requires_grad(false));
  const at::Tensor all = ranks.all_gather(at::cat({mean.to(at::kDouble), variance.to(at::kDouble), own_count}));
  const at::Tensor means = all.narrow(1, 0, channels), variances = all.narrow(1, channels, channels);
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);
  const at::Tensor count = counts.sum();
  const at::Tensor shares = counts / count;
  const at::Tensor whole = (means * shares).sum(0);
  return {whole, ((variances + (means - whole).square()) * shares).sum(0), count};
}

/// (input - mean) / deviation, where both depend on the input of every rank.
struct Normalize : torch::autograd::Function<Normalize> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, const at::Tensor& count, int64_t ranks_address) {
    const at::Tensor normalized = (input - mean) * inverse_deviation;
    context->save_for_backward({normalized, inverse_deviation, count});
    context->saved_data["ranks"] = ranks_address;
    return normalized;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &normalized = saved[0], &inverse_deviation = saved[1], &count = saved[2];
    auto& ranks = *reinterpret_cast<StepDriver*>(context->saved_data["ranks"].toInt());
    const at::Tensor& gradient = gradients[0];
    const auto dims = all_but_channels(gradient.dim());
    const at::Tensor sums =
        at::stack({gradient.sum(dims, /*keepdim=*/true), (gradient * normalized).sum(dims, /*keepdim=*/true)});
    const at::Tensor means = ranks.all_reduce(sums, /*mean=*/false) / count.to(sums.scalar_type());
    const at::Tensor of_input = inverse_deviation * (gradient - means[0] - normalized * means[1]);
    return {of_input, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (!ranks_ || !is_training()) return Base::forward(input);
  _check_input_dim(input);
  const double share = count_batch();
  const bool is_short = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  const at::Tensor x = is_short ? input.to(at::kFloat) : input;
  const Statistics statistics = statistics_over(*ranks_, x);
  if (options.track_running_stats()) {
    const at::NoGradGuard no_grad;
    const at::Tensor unbiased = statistics.variance * (statistics.count / (statistics.count - 1).clamp_min(1));
    running_mean.mul_(1 - share).add_(statistics.mean.to(running_mean.scalar_type()), share);
    running_var.mul_(1 - share).add_(unbiased.to(running_var.scalar_type()), share);
  }
  const auto as_input = [&](const at::Tensor& values) { return along_channels(values.to(x.scalar_type()), x.dim()); };
  at::Tensor result =
      Normalize::apply(x, as_input(statistics.mean), as_input((statistics.variance + options.eps()).rsqrt()),
                       statistics.count, reinterpret_cast<int64_t>(ranks_));
  if (options.affine()) result = result * along_channels(weight, x.dim()) + along_channels(bias, x.dim());
  return result.to(input.scalar_type());
}

double SyncBatchNormImpl::count_batch() {
  if (!options.track_running_stats()) return 0;
  const at::NoGradGuard no_grad;
  num_batches_tracked += 1;
  return options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "cohort::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2) return;
  throw UserError("SyncBatchNorm was given an input of " + std::to_string(input.dim()) +
                  " dimensions; give it [samples, channels, ...]");
}

}  // namespace cohort
