// Names, values and places of what a module logs.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace cohort {

/// Where a logged value goes: the row of a logging interval, the mean over the epoch, or both.
enum class LogWhere { kStep = 1, kEpoch = 2, kBoth = 3 };

/// Values by name, as tables, files and the summary show them.
using Metrics = std::map<std::string, double>;

/// The fraction of rows whose largest logit is at the label; a 0-dim float tensor on the device of the logits.
at::Tensor accuracy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace cohort
