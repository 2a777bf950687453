// Data parallel: one process per device, gradients averaged during backward. The runtime's base does the work; this
// layer adds a 16-bit wire and the sizes of buckets.
#include <cohort/sdk/cast_wire.hpp>
#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

constexpr uint64_t kBaseBucketSize = 25u << 20;
constexpr uint64_t kBaseFirstBucketSize = 1u << 20;

class Ddp : public sdk::Strategy<Ddp> {
 public:
  static constexpr bool kGradInPlace = true;

  void create(const sdk::Options& options) {
    wire_ = sdk::CastWire(options.text("compression"), "ddp");
    bucket_size_ = options.bytes("bucket_size");
    first_bucket_size_ = options.bytes("first_bucket_size");
  }

  void plan(const cohort_job& job, cohort_plan& plan) {
    super().plan(job, plan);
    plan.collectives = "shm,hier,gloo";
  }

  void configure_model() {
    super().configure_model();
    if (!communicates()) return;
    if (bucket_size_ != kBaseBucketSize || first_bucket_size_ != kBaseFirstBucketSize) {
      host().buckets().want(COHORT_BUCKET_GRAD);
      host().buckets().configure(bucket_size_, first_bucket_size_, 1, false, COHORT_LAYOUT_ANY_ORDER);
    }
    wire_.prepare(host());
  }

  void reduce_bucket(const cohort_bucket& bucket) {
    if (!communicates() || !wire_.casts(bucket)) return super().reduce_bucket(bucket);
    wire_.all_reduce(host(), bucket, COHORT_REDUCE_MEAN);
  }

 private:
  bool communicates() const {
    const sdk::Comm world = host().world();
    return world && world.size() > 1;
  }

  sdk::CastWire wire_;
  uint64_t bucket_size_ = kBaseBucketSize;
  uint64_t first_bucket_size_ = kBaseFirstBucketSize;
};

constexpr cohort_option kOptions[] = {
    sdk::option("compression", "enum(none|fp16|bf16)", "none", "what gradients are cast to while they travel"),
    sdk::option("bucket_size", "size", "25MiB", "size at which a bucket of gradients closes"),
    sdk::option("first_bucket_size", "size", "1MiB", "size at which the first bucket closes"),
};

constexpr cohort_component kDdp =
    sdk::strategy<Ddp>("ddp", "one process per device; gradients are averaged during backward").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.ddp", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDdp)
