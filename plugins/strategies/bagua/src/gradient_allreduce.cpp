// gradient_allreduce: what ddp does, with Bagua's buckets and its choice of ranks that exchange.
#include "algorithm.hpp"

namespace cohort::bagua {
namespace {

class GradientAllreduce final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void plan_buckets(const sdk::Buckets&, cohort_bucket_plan& plan) override { plan.size = settings().bucket_size; }

  void reduce_bucket(const cohort_bucket& bucket) override {
    const sdk::Elements gradients = elements_of(host(), bucket, COHORT_BUCKET_GRAD);
    if (!group().is_hierarchical()) {
      return host().comm(bucket).all_reduce(gradients, settings().average ? COHORT_REDUCE_MEAN : COHORT_REDUCE_SUM);
    }
    group().collect(host(), gradients);
    if (group().takes_part()) sum_over_nodes(gradients);
    group().spread(host(), gradients);
  }

 private:
  // Divided by the number of ranks, not of nodes: nodes with more ranks count more.
  void sum_over_nodes(const sdk::Elements& gradients) const {
    const sdk::Comm leaders = host().leaders();
    if (leaders.size() > 1) leaders.all_reduce(gradients, COHORT_REDUCE_SUM);
    if (settings().average) scale(host(), gradients, 1.0 / group().world_size());
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_gradient_allreduce(Context context) {
  return std::make_unique<GradientAllreduce>(std::move(context));
}

}  // namespace cohort::bagua
