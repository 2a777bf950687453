// Names, values and places of what a module logs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

namespace cohort {

/// Says where a logged value goes: the row of a logging interval, the mean over the epoch, or both. `kBar` may be added
/// (LogWhere::kEpoch | LogWhere::kBar): the status line of a terminal shows the value as well; alone it is added to
/// kBoth.
enum class LogWhere { kStep = 1, kEpoch = 2, kBoth = 3, kBar = 4 };
constexpr LogWhere operator|(LogWhere one, LogWhere other) {
  return static_cast<LogWhere>(static_cast<int>(one) | static_cast<int>(other));
}

/// How a value is logged: log("loss", loss, {.where = LogWhere::kEpoch, .samples = num_nodes}).
struct LogOptions {
  LogWhere where = LogWhere::kBoth;
  /// The weight of the value in the mean of the epoch; unset: the samples of the batch.
  std::optional<int64_t> samples{};
};

/// Values by name, as tables, files and the summary show them.
using Metrics = std::map<std::string, double>;

/// The fraction of rows whose largest logit is at the label; a 0-dim float tensor on the device of the logits.
at::Tensor accuracy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace cohort
