// Holds what a module logs during one pass: the latest value of each name, its sum over the pass, and metric objects.
//
// One per loop, on its thread. Values that lie on a device stay there until they are asked for; adding a CPU value to a
// known name allocates nothing.
#pragma once

#include <cstdint>
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
  /// metric objects are taken there.
  enum class Pass { kTraining, kEvaluation, kEpochEnd };
  explicit MetricBoard(Pass pass = Pass::kTraining) : pass_(pass) {}

  /// The weight of what is added until the next call.
  void begin_batch(int64_t samples) { samples_ = static_cast<double>(samples); }

  /// Throws UserError for a tensor of more than one element and for an empty name or one with a comma or control
  /// character.
  void add(std::string_view name, const at::Tensor& value, LogWhere where);
  void add(std::string_view name, double value, LogWhere where);
  /// Throws UserError for such a name as well, and for one that a value has.
  void add(std::string_view name, Metric& metric);
  LoggedMetrics& metrics() { return metrics_; }

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
  /// Forgets the values and the metric objects, keeps the names' order.
  void clear();

 private:
  struct Entry : MetricRecord {
    at::Tensor last_on_device;
    at::Tensor sum_on_device;  // in addition to `sum`
    double whole_last() const;
    double whole_sum() const;
  };
  Entry& entry(std::string_view name, LogWhere where);

  Pass pass_;
  std::vector<Entry> entries_;  // few: a linear search beats a map
  LoggedMetrics metrics_;
  double samples_ = 1;
};

}  // namespace cohort
