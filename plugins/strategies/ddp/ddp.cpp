// Data parallel: one process per device, gradients averaged during backward. The runtime's base does the work; this
// layer adds compression to 16 bits and the sizes of buckets.
#include <cohort/sdk/cast_compression.hpp>
#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

class Ddp : public sdk::Strategy<Ddp> {
 public:
  void create(const sdk::Options& options) {
    compression_ = sdk::CastCompression(options.text("compression"));
    bucket_size_ = options.bytes("bucket_size");
    first_bucket_size_ = options.bytes("first_bucket_size");
  }

  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    plan.size = bucket_size_;
    plan.first_size = first_bucket_size_;
  }

  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    compression_.prepare(host());
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    if (!compression_.casts(host(), bucket)) return below().reduce_bucket(step, bucket);
    compression_.all_reduce(host(), bucket, COHORT_REDUCE_MEAN);
  }

 private:
  sdk::CastCompression compression_;
  uint64_t bucket_size_ = 0, first_bucket_size_ = 0;  // bytes; 0: the runtime's
};

sdk::Answer supports(const sdk::Query& query) {
  return sdk::yes_to_known(query, {COHORT_USE_CLOSURES, COHORT_USE_GRAPH, COHORT_USE_JOIN, COHORT_USE_LOSS_SCALER,
                                   COHORT_USE_DEVICES, COHORT_USE_PRECISION});
}

constexpr cohort_option kOptions[] = {
    sdk::option("compression", "enum(none|fp16|bf16)", "none", "what gradients are cast to while they travel"),
    sdk::option("bucket_size", "size", "0",
                "size at which a bucket of gradients closes; 0: 25MiB, or what was measured"),
    sdk::option("first_bucket_size", "size", "0", "size at which the first bucket closes; 0: 1MiB, or bucket_size"),
};

constexpr cohort_component kDdp =
    sdk::strategy<Ddp>("ddp", "one process per device; gradients are averaged during backward")
        .options(kOptions)
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.ddp", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDdp)
