// bytegrad: the mean gradient with one byte for each element.
#include <array>

#include "algorithm.hpp"
#include "bucket_lanes.hpp"
#include "compressed_mean.hpp"
#include "not_finite.hpp"

namespace cohort::bagua {
namespace {

class Bytegrad final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void plan_buckets(const sdk::Buckets&, cohort_bucket_plan& plan) override {
    plan.size = settings().bucket_size;
    plan.alignment = static_cast<uint64_t>(group().size());
    plan.flags |= COHORT_PLAN_KEEP_ORDER | COHORT_PLAN_KEEP_SIZE;
  }

  void layout_ready(int32_t) override {
    not_finite_.configure(host(), group().size());
    lanes_.configure(host(), [this](const cohort_bucket& bucket, std::size_t lane) { reduce(bucket, means_[lane]); });
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      means_[lanes_.lane_of(bucket)].reserve(host(), bucket, group().size());
    });
  }

  void begin_step(const cohort_step&) override {
    lanes_.finish();
    not_finite_.report_kept(host());
  }
  void reduce_bucket(const cohort_bucket& bucket) override { lanes_.run(bucket); }
  void pause(int32_t) override { not_finite_.report_kept(host()); }

 private:
  std::array<CompressedMean, BucketLanes::kCount> means_;  // by lane
  NotFinite not_finite_{"gradient"};
  BucketLanes lanes_;

  void reduce(const cohort_bucket& bucket, CompressedMean& mean) {
    const sdk::Elements gradients = elements_of(host(), bucket, COHORT_BUCKET_GRAD);
    if (group().size() == 1) return average_uncompressed(bucket, gradients);
    group().collect(host(), gradients);
    if (group().takes_part()) average(bucket, gradients, mean);
    group().spread(host(), gradients);
  }

  // One node: what does not leave it is not compressed.
  void average_uncompressed(const cohort_bucket& bucket, const sdk::Elements& gradients) const {
    host().comm(bucket).all_reduce(gradients, settings().average ? COHORT_REDUCE_MEAN : COHORT_REDUCE_SUM);
  }

  void average(const cohort_bucket& bucket, const sdk::Elements& gradients, CompressedMean& mean) {
    clear_padding(host(), bucket, gradients);
    const double divisor = settings().average ? group().world_size() : 1;
    mean.average(host(), group().comm(host(), bucket), bucket, gradients, divisor, not_finite_);
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_bytegrad(Context context) {
  return std::make_unique<Bytegrad>(std::move(context));
}

}  // namespace cohort::bagua
