#include "loggers/histogram.hpp"

#include <limits>
#include <span>

#include <ATen/ops/bincount.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/tensor.h>

namespace cohort {
namespace {

std::vector<double> default_limits() {
  std::vector<double> limits;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) limits.push_back(limit);
  limits.push_back(std::numeric_limits<double>::max());
  std::vector<double> all(limits.rbegin(), limits.rend());
  for (double& limit : all) limit = -limit;
  all.push_back(0);
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

/// Adds the buckets to the histogram; one for each run of empty ones.
void add_buckets(Histogram& histogram, std::span<const double> limits, std::span<const int64_t> counts) {
  for (size_t i = 0; i < limits.size(); ++i) {
    const bool goes_on_empty = counts[i] == 0 && !histogram.counts.empty() && histogram.counts.back() == 0;
    if (goes_on_empty) {
      histogram.limits.back() = limits[i];
      continue;
    }
    histogram.limits.push_back(limits[i]);
    histogram.counts.push_back(static_cast<double>(counts[i]));
  }
}

}  // namespace

Histogram histogram_of(const at::Tensor& tensor) {
  const at::Tensor all = tensor.detach().to(at::kDouble).flatten();
  const at::Tensor values = all.masked_select(all.isfinite());
  const std::vector<double> limits = default_limits();
  const auto buckets = static_cast<int64_t>(limits.size());

  Histogram histogram;
  histogram.count = static_cast<double>(values.numel());
  if (values.numel() > 0) {
    histogram.min = values.min().item<double>();
    histogram.max = values.max().item<double>();
    histogram.sum = values.sum().item<double>();
    histogram.sum_of_squares = values.square().sum().item<double>();
  }
  // The largest double is its own limit, and counts as below it.
  const at::Tensor bucket =
      at::bucketize(values, at::tensor(limits, at::kDouble).to(values.device()), false, true).clamp_max(buckets - 1);
  const at::Tensor counts = at::bincount(bucket, {}, buckets).to(at::kCPU);
  add_buckets(histogram, limits, {counts.const_data_ptr<int64_t>(), limits.size()});
  return histogram;
}

}  // namespace cohort
