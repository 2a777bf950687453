#include "group.hpp"

namespace cohort::bagua {

Group::Group(const cohort_job_info& job, Settings::Hierarchical hierarchical) : job_(job) {
  const bool is_worth_it = job.num_nodes > 1 && job.world_size > job.num_nodes;
  hierarchical_ =
      hierarchical == Settings::Hierarchical::kYes || (hierarchical == Settings::Hierarchical::kAuto && is_worth_it);
}

sdk::Comm Group::comm(const sdk::Host& host, const cohort_bucket& bucket) const {
  return hierarchical_ ? host.leaders() : host.comm(bucket);
}

void Group::collect(const sdk::Host& host, const sdk::Elements& elements) const {
  if (has_node()) host.node().reduce(elements, COHORT_REDUCE_SUM, 0);
}

void Group::spread(const sdk::Host& host, const sdk::Elements& elements) const {
  if (has_node()) host.node().broadcast(elements, 0);
}

}  // namespace cohort::bagua
