// Data parallel: one process per device, gradients averaged during backward. The runtime's base does the work; this
// layer adds a 16-bit wire and the sizes of buckets.
#include <cstdint>
#include <vector>

#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

constexpr uint64_t kBaseBucketSize = 25u << 20;
constexpr uint64_t kBaseFirstBucketSize = 1u << 20;

int32_t wire_dtype(std::string_view compression) {
  if (compression == "fp16") return COHORT_FLOAT16;
  return compression == "bf16" ? COHORT_BFLOAT16 : 0;
}

class Ddp : public sdk::Strategy<Ddp> {
 public:
  void create(const sdk::Options& options) {
    wire_dtype_ = wire_dtype(options.text("compression"));
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
    make_wires();
  }

  void reduce_bucket(const cohort_bucket& bucket) {
    if (bucket.index >= wires_.size() || wires_[bucket.index].empty()) return super().reduce_bucket(bucket);
    const sdk::TensorView gradients = host().buckets().view(bucket.index, COHORT_BUCKET_GRAD);
    const auto& kernels = host().kernels(bucket.stream.device_type);
    void* wire = wires_[bucket.index].data();
    sdk::check(kernels.cast(wire, wire_dtype_, gradients.data(), bucket.dtype, bucket.numel, &bucket.stream));
    host().world().all_reduce({wire, bucket.numel, wire_dtype_, bucket.stream}, COHORT_REDUCE_MEAN);
    sdk::check(kernels.cast(gradients.data(), bucket.dtype, wire, wire_dtype_, bucket.numel, &bucket.stream));
  }

 private:
  bool communicates() const {
    const sdk::Comm world = host().world();
    return world && world.size() > 1;
  }

  /// One 16-bit buffer for each bucket of wider elements; made here so that steps allocate nothing.
  void make_wires() {
    wires_.clear();
    if (wire_dtype_ == 0) return;
    const sdk::Buckets buckets = host().buckets();
    wires_.resize(buckets.count());
    for (uint64_t i = 0; i < wires_.size(); ++i) {
      const cohort_bucket& bucket = buckets.at(i);
      if (sdk::size_of(bucket.dtype) <= sdk::size_of(wire_dtype_)) continue;
      if (bucket.stream.device_type != COHORT_DEVICE_CPU) {
        throw sdk::Error(COHORT_UNIMPLEMENTED,
                         "ddp compresses gradients on CPU devices only; leave compression out on this accelerator");
      }
      require_cast_kernel(bucket.stream.device_type);
      wires_[i].resize(bucket.numel);
    }
  }

  void require_cast_kernel(int32_t device_type) const {
    if (host().kernels(device_type).cast) return;
    throw sdk::Error(
        COHORT_UNIMPLEMENTED,
        "ddp compresses gradients with a cast kernel, which this accelerator lacks; leave compression out");
  }

  int32_t wire_dtype_ = 0;  // 0: gradients travel as they are
  uint64_t bucket_size_ = kBaseBucketSize;
  uint64_t first_bucket_size_ = kBaseFirstBucketSize;
  std::vector<std::vector<uint16_t>> wires_;
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
