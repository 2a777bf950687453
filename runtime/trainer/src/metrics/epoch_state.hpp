// The metrics of the epoch so far in the state of a training.
#pragma once

#include <string>
#include <vector>

#include "metrics/metric_board.hpp"
#include "state/state_tree.hpp"

namespace cohort {

/// Writes the records into their section.
void save_records(const StateWriter& state, const std::vector<MetricRecord>& records);
/// Returns the records in the order of their first values. Throws UserError if an entry of their section holds no
/// record.
std::vector<MetricRecord> read_records(const StateReader& state);
/// Replaces the values of metric objects, which hold until the objects are logged.
void replace_metric_values(NamedTensors& state, const Metrics& values);
/// Throws UserError for a name that no training can have logged: it would go into the tables of this one.
void check_metric_names(const StateReader& state);

/// Deletes the entries of the epoch: a rank that was added begins without them.
void drop_epoch(TensorIndex& own);
/// Adds the epoch's entries of another rank, for which this rank resumes as well. `name` is the end of the names of
/// that rank's metric states. Throws UserError, beginning with `file`, if an entry holds no record.
void add_epoch(TensorIndex& own, const TensorIndex& other, const std::string& name, const std::string& file);

}  // namespace cohort
