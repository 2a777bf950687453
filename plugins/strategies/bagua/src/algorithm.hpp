// One algorithm: the slots of a strategy that it uses. Only made for several ranks.
//
// configure is called in configure_model, after the ranks have agreed on the model and have rank 0's weights. A layout
// has GRAD unless plan_buckets drops it. Threads: as cohort/api/strategy.h says for each slot.
#pragma once

#include <memory>

#include <cohort/sdk/strategy.hpp>

#include "group.hpp"
#include "settings.hpp"

namespace cohort::bagua {

struct Context {
  const sdk::Host& host;
  Settings settings;
  Group group;
};

class Algorithm {
 public:
  explicit Algorithm(Context context) : context_(std::move(context)) {}
  virtual ~Algorithm() = default;
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;

  virtual void configure() {}
  virtual void plan_buckets(const sdk::Buckets& buckets, cohort_bucket_plan& plan) = 0;
  virtual void layout_ready(int32_t) {}
  virtual void begin_step(const cohort_step&) {}
  virtual void reduce_bucket(const cohort_bucket&) {}
  virtual void end_backward(const cohort_step&) {}
  /// False: the host's optimizer makes the step.
  virtual bool optimizer_step(const cohort_step&) { return false; }
  virtual void end_step(const cohort_step&) {}
  virtual void pause(int32_t) {}
  virtual void save_state() {}
  virtual void load_state() {}
  virtual void shutdown() {}

 protected:
  const sdk::Host& host() const { return context_.host; }
  const Settings& settings() const { return context_.settings; }
  const Group& group() const { return context_.group; }

 private:
  Context context_;
};

/// Returns the elements at a bucket's place in one of its buffers, on the calling thread's stream.
inline sdk::Elements elements_of(const sdk::Host& host, const cohort_bucket& bucket, int32_t kind,
                                 const char* name = nullptr) {
  return {host.buckets().view(bucket.index, kind, name).data(), bucket.numel, bucket.dtype, host.stream(bucket)};
}

/// Returns those of one parameter among the elements of a bucket.
inline sdk::Elements part_of(const sdk::Elements& bucket, const cohort_bucket_part& part) {
  auto* const first = static_cast<unsigned char*>(bucket.data) + part.offset * sdk::size_of(bucket.dtype);
  return {first, part.numel, bucket.dtype, bucket.stream};
}

/// Calls `work(bucket)` for the buckets of a phase.
template <class Work>
void for_buckets(const sdk::Host& host, uint32_t phase, Work work) {
  const sdk::Buckets buckets = host.buckets();
  for (uint32_t index = 0; index < buckets.count(); ++index) {
    const cohort_bucket& bucket = buckets.at(index);
    if (bucket.phase == phase) work(bucket);
  }
}
template <class Work>
void for_all_buckets(const sdk::Host& host, Work work) {
  const sdk::Buckets buckets = host.buckets();
  for (uint32_t index = 0; index < buckets.count(); ++index) work(buckets.at(index));
}

/// `to` = a x `x` + b x `to`, elements of a bucket.
inline void axpby(const sdk::Host& host, const sdk::Elements& to, const sdk::Elements& x, double a, double b) {
  host.core_kernels(to.stream.device_type).axpby(to, x.data, a, b);
}
inline void copy(const sdk::Host& host, const sdk::Elements& to, const sdk::Elements& from) {
  host.core_kernels(to.stream.device_type).copy(to, from.data);
}
inline void scale(const sdk::Host& host, const sdk::Elements& elements, double factor) {
  host.core_kernels(elements.stream.device_type).scale(elements, factor);
}

/// Zeros behind the last parameter: what is not finite there would stay, and spoil its chunk in every step.
inline void clear_padding(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& elements) {
  const cohort_bucket_part& last = bucket.parts[bucket.num_parts - 1];
  const uint64_t used = last.offset + last.numel;
  if (used == elements.count) return;
  auto* const first = static_cast<unsigned char*>(elements.data) + used * sdk::size_of(elements.dtype);
  host.core_kernels(bucket.device_type).fill({first, elements.count - used, elements.dtype, elements.stream}, 0);
}

/// Every rank's weights become the mean over the ranks.
inline void average_weights(const sdk::Host& host, const cohort_bucket& bucket) {
  host.comm(bucket).all_reduce(elements_of(host, bucket, COHORT_BUCKET_WEIGHT), COHORT_REDUCE_MEAN);
}

std::unique_ptr<Algorithm> make_gradient_allreduce(Context context);
std::unique_ptr<Algorithm> make_bytegrad(Context context);
std::unique_ptr<Algorithm> make_decentralized(Context context);
std::unique_ptr<Algorithm> make_low_precision_decentralized(Context context);
std::unique_ptr<Algorithm> make_qadam(Context context);
std::unique_ptr<Algorithm> make_async(Context context);

}  // namespace cohort::bagua
