// The ranks that exchange with each other: all, or one of each node for the others of its node.
//
// Made when the ranks are connected. Calls that communicate are made by all ranks, in the same order on each lane.
#pragma once

#include <cohort/sdk/host.hpp>

#include "settings.hpp"

namespace cohort::bagua {

class Group {
 public:
  Group(const cohort_job_info& job, Settings::Hierarchical hierarchical);

  bool is_hierarchical() const { return hierarchical_; }
  /// How many exchange.
  int size() const { return hierarchical_ ? job_.num_nodes : job_.world_size; }
  int world_size() const { return job_.world_size; }
  /// Ranks that this one stands for, on a node whose leader it is.
  int represented() const { return hierarchical_ ? job_.local_world_size : 1; }
  bool takes_part() const { return !hierarchical_ || job_.local_rank == 0; }
  /// Returns the communicator of those that exchange a bucket; on ranks that take part. On the calling lane.
  sdk::Comm comm(const sdk::Host& host, const cohort_bucket& bucket) const;

  /// The sum of a node's elements to the rank that takes part.
  void collect(const sdk::Host& host, const sdk::Elements& elements) const;
  /// What the rank that takes part has to its node.
  void spread(const sdk::Host& host, const sdk::Elements& elements) const;

 private:
  cohort_job_info job_{};
  bool hierarchical_ = false;

  bool has_node() const { return hierarchical_ && job_.local_world_size > 1; }
};

}  // namespace cohort::bagua
