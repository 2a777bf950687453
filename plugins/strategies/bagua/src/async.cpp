// async: ranks train alone; every now and then all weights are averaged on a lane beside training, and each rank adds
// the difference between the average and what its weights were when the round began:
//
//   s_r = w_r      S = mean of s_r      w_r += S - s_r, at the beginning of a later step
//
// What was learned meanwhile stays; the corrections of a round add up to 0. A round ends when the slowest rank has
// joined it, and nobody waits for that. Weights change in begin_step alone.
#include <chrono>
#include <optional>
#include <utility>

#include "algorithm.hpp"

namespace cohort::bagua {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kSnapshot = "snapshot";
constexpr const char* kCorrection = "correction";
constexpr const char* kArchived = "is_warm_up";

class Async final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void configure() override {
    lane_ = host().lane("async");  // made by all ranks together
    is_warm_up_ = settings().warmup_steps.value_or(0) > 0;
    rounds_ = 0;
    ticket_ = 0;
    has_correction_ = false;
  }

  void plan_buckets(const sdk::Buckets& buckets, cohort_bucket_plan& plan) override {
    if (is_warm_up_) {
      plan.size = settings().bucket_size;
      return;
    }
    buckets.drop(COHORT_BUCKET_GRAD);
    buckets.want(COHORT_BUCKET_WEIGHT);
    for (const char* name : {kSnapshot, kCorrection}) buckets.want(COHORT_BUCKET_STATE, name, 0, COHORT_STATE_SCRATCH);
    plan.flags |= COHORT_PLAN_ONE_BUCKET;
  }

  void layout_ready(int32_t) override { due_ = Clock::now() + settings().sync_interval; }

  void begin_step(const cohort_step& step) override {
    if (is_warm_up_ || !(step.flags & COHORT_STEP_FIRST)) return;
    if (ticket_ != 0 && lane_->is_done(ticket_)) {
      ticket_ = 0;
      has_correction_ = true;
    }
    if (has_correction_) apply();
    if (ticket_ == 0 && Clock::now() >= due_) begin_round();
  }

  void reduce_bucket(const cohort_bucket& bucket) override {
    host().comm(bucket).all_reduce(elements_of(host(), bucket, COHORT_BUCKET_GRAD), COHORT_REDUCE_MEAN);
  }

  // With the last optimizer's step: a new layout forgets the gradients that others have for theirs.
  void end_step(const cohort_step& step) override {
    const bool is_last = (step.flags & COHORT_STEP_LAST_PHASE) != 0;
    if (!is_warm_up_ || !is_last || step.step + 1 < settings().warmup_steps.value_or(0)) return;
    is_warm_up_ = false;
    host().buckets().request_relayout();
  }

  void pause(int32_t reason) override {
    finish_round();
    if (reason != COHORT_PAUSE_END) return;
    if (has_correction_) apply();  // other ranks may have added theirs: together they are 0
    if (is_warm_up_) return;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) { average_weights(host(), bucket); });
    host().log().info("bagua:async averaged the weights in ", rounds_, " rounds");
  }

  // A correction that waits is left out.
  void save_state() override {
    const uint8_t value = is_warm_up_ ? 1 : 0;
    host().save(kArchived, &value, sizeof value, COHORT_ARCHIVE_SHARED);
  }
  // What is on its way was learned by weights that are no more.
  void load_state() override {
    finish_round();
    has_correction_ = false;
    uint8_t value = 1;
    if (!host().load(kArchived, &value, sizeof value) || value == 1 || !is_warm_up_) return;
    is_warm_up_ = false;
    host().buckets().request_relayout();
  }

 private:
  bool is_warm_up_ = false;
  std::optional<sdk::Lane> lane_;
  uint64_t rounds_ = 0;           // begun
  sdk::Lane::Ticket ticket_ = 0;  // of the round that is under way; 0: none
  bool has_correction_ = false;   // of a round that is over, not added yet
  Clock::time_point due_;
  sdk::LaneTask round_{[this] { average(); }};

  sdk::Elements weights(const cohort_bucket& bucket) const { return elements_of(host(), bucket, COHORT_BUCKET_WEIGHT); }
  sdk::Elements snapshot(const cohort_bucket& bucket) const {
    return elements_of(host(), bucket, COHORT_BUCKET_STATE, kSnapshot);
  }
  sdk::Elements correction(const cohort_bucket& bucket) const {
    return elements_of(host(), bucket, COHORT_BUCKET_STATE, kCorrection);
  }

  void begin_round() {
    for_all_buckets(host(), [&](const cohort_bucket& bucket) { copy(host(), snapshot(bucket), weights(bucket)); });
    submit();
  }
  void submit() {
    ++rounds_;
    host().set_metric("rounds", static_cast<double>(rounds_));
    ticket_ = lane_->submit(round_);
  }

  // [lane]
  void average() const {
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      host().comm(bucket).all_reduce(snapshot(bucket), correction(bucket).data, COHORT_REDUCE_MEAN);
      axpby(host(), correction(bucket), snapshot(bucket), -1.0, 1.0);
    });
  }

  void apply() {
    for_all_buckets(host(),
                    [&](const cohort_bucket& bucket) { axpby(host(), weights(bucket), correction(bucket), 1.0, 1.0); });
    has_correction_ = false;
    due_ = Clock::now() + settings().sync_interval;
  }

  // Collective. A rank that has not begun the newest round yet joins it, so that it ends now. Its weights stay; what it
  // adds later is the sum of the last two corrections.
  void finish_round() {
    if (is_warm_up_) return;
    int64_t newest = static_cast<int64_t>(rounds_);
    host().world().all_reduce({&newest, 1, COHORT_INT64}, COHORT_REDUCE_MAX);
    wait();
    if (static_cast<int64_t>(rounds_) < newest) join_round();
  }

  void wait() {
    if (ticket_ == 0) return;
    lane_->wait(ticket_);
    ticket_ = 0;
    has_correction_ = true;
  }

  void join_round() {
    const bool is_behind = has_correction_;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      copy(host(), snapshot(bucket), weights(bucket));
      if (is_behind) axpby(host(), snapshot(bucket), correction(bucket), 1.0, 1.0);
    });
    submit();
    wait();
    if (!is_behind) return;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      axpby(host(), correction(bucket), snapshot(bucket), 1.0, 1.0);
      axpby(host(), correction(bucket), weights(bucket), -1.0, 1.0);
    });
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_async(Context context) {
  return std::make_unique<Async>(std::move(context));
}

}  // namespace cohort::bagua
