// bytegrad: the mean gradient with one byte for each element.
#include <algorithm>

#include "algorithm.hpp"
#include "compressed_mean.hpp"
#include "not_finite.hpp"

namespace cohort::bagua {
namespace {

class Bytegrad final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void configure() override {
    host().buckets().want(COHORT_BUCKET_GRAD);
    host().buckets().configure(settings().bucket_size, 0, static_cast<uint64_t>(group().size()));
    uint64_t largest = 0;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      Codec(host(), bucket);  // throws where it cannot be
      largest = std::max(largest, bucket.numel);
    });
    mean_.reserve(largest, group().size());
  }

  void reduce_bucket(const cohort_bucket& bucket) override {
    const sdk::Elements gradients = elements_of(host(), bucket, COHORT_BUCKET_GRAD);
    if (group().size() == 1) return average_uncompressed(gradients);
    group().collect(host(), gradients);
    if (group().takes_part()) average(bucket, gradients);
    group().spread(host(), gradients);
  }

 private:
  CompressedMean mean_;
  NotFinite not_finite_;

  // One node: what does not leave it is not compressed.
  void average_uncompressed(const sdk::Elements& gradients) const {
    host().world().all_reduce(gradients, settings().average ? COHORT_REDUCE_MEAN : COHORT_REDUCE_SUM);
  }

  void average(const cohort_bucket& bucket, const sdk::Elements& gradients) {
    const Codec codec(host(), bucket);
    const sdk::Comm ranks = group().comm(host());
    const bool sends_finite = mean_.encode(codec, ranks, gradients);
    if (!sends_finite) not_finite_.report_own(host(), bucket, gradients, "gradient");
    const bool is_finite = mean_.average(codec, ranks, gradients, settings().average ? group().world_size() : 1);
    if (!is_finite) not_finite_.report_other(host(), bucket, "gradient");
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_bytegrad(Context context) {
  return std::make_unique<Bytegrad>(std::move(context));
}

}  // namespace cohort::bagua
