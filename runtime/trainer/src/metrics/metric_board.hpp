// Holds what a module logs during one pass: the latest value of each name, its sum over the pass, and metric objects.
//
// One per loop, on its thread. Values that lie on a device stay there until they are asked for; adding a CPU value to a
// known name allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/metrics.hpp>

#include "metrics/logged_metrics.hpp"

namespace cohort {

/// A name's sum of value x samples, and the samples.
struct MetricTotal {
  std::string name;
  double sum = 0;
  double weight = 0;
  bool operator==(const MetricTotal&) const = default;
};

/// All that the board knows of a name, as a checkpoint keeps it.
struct MetricRecord {
  std::string name;
  LogWhere where = LogWhere::kBoth;
  bool seen = false;      ///< since clear()
  bool is_fresh = false;  ///< since the last step values
  double last = 0;
  double sum = 0;
  double weight = 0;
  bool operator==(const MetricRecord&) const = default;
};

class MetricBoard {
 public:
  /// In evaluation every value counts for the epoch, whatever the module asks for; at the end of an epoch, too, and no
  /// metric objects are taken there. While a step is captured there are no values yet: the tensors are kept for its
  /// replays.
  enum class Pass { kTraining, kEvaluation, kEpochEnd, kCapture };
  explicit MetricBoard(Pass pass = Pass::kTraining) : pass_(pass) {}

  /// The weight of what is added until the next call.
  void begin_batch(int64_t samples) { samples_ = static_cast<double>(samples); }

  /// Throws UserError for a tensor of more than one element, and for a name that is none (is_metric_name); in a capture
  /// for a number of the host, which all replays would repeat.
  void add(std::string_view name, const at::Tensor& value, LogOptions options);
  void add(std::string_view name, double value, LogOptions options);
  /// Throws UserError for such a name as well, for one that a value has, and for a metric of each step.
  void add(std::string_view name, Metric& metric, LogWhere where = LogWhere::kEpoch);
  /// Returns whether a value of this name, which may be one element of a metric's, was logged with kBar.
  bool is_on_bar(std::string_view name) const;
  LoggedMetrics& metrics() { return metrics_; }
  /// Returns all names that values, and metric objects, were logged under. Does not wait for the device.
  std::vector<std::string> names() const;

  /// Adds what the boards of a batch's pieces hold: of each name one value, the mean over their samples, or one metric
  /// object, which has taken the states of the others.
  void add_pieces(std::span<const MetricBoard> pieces);

  /// Returns the latest values of names logged for the step since the last call, in the order of their first
  /// appearance. Waits for the device.
  std::vector<std::pair<std::string, double>> take_step_values();
  /// Totals of names logged for the epoch. Waits for the device.
  std::vector<MetricTotal> totals() const;
  /// Everything, and back. Waits for the device.
  std::vector<MetricRecord> records() const;
  void restore(const std::vector<MetricRecord>& records);
  /// Returns a board with the same values and objects, to which nothing is added. Does not wait for the device.
  MetricBoard copy() const;
  /// Forgets the values and the metric objects, keeps the names' order.
  void clear();

  /// A value that was logged in a capture.
  struct Captured {
    std::string name;
    at::Tensor value;
    LogOptions options;
  };
  const std::vector<Captured>& captured() const { return captured_; }

 private:
  struct Entry : MetricRecord {
    at::Tensor last_on_device;
    at::Tensor sum_on_device;  // in addition to `sum`
    double last_weight = 0;    // of `last` in a mean
    double whole_last() const;
    double whole_sum() const;
  };
  Entry& entry(std::string_view name, LogWhere where);
  /// Adds the mean of the values that pieces of a batch have logged under one name, by their weights.
  void add_mean(std::span<const Entry* const> values);
  /// Returns where a value that was logged so goes in this pass.
  LogWhere place_of(LogWhere where) const;
  /// Returns the weight of a value in a mean. Throws UserError if it is below 0.
  double weight_of(std::string_view name, const LogOptions& options) const;

  Pass pass_;
  std::vector<Entry> entries_;  // few: a linear search beats a map
  LoggedMetrics metrics_;
  std::set<std::string, std::less<>> metrics_on_bar_;
  double samples_ = 1;
  std::vector<Captured> captured_;  // in the order of the calls
};

}  // namespace cohort
