#include "adaptation.hpp"

#include <algorithm>
#include <sstream>

#include "rank_state.hpp"

namespace cohort::host {
namespace {

constexpr uint64_t kSmallBucketBytes = 5ull << 20;
constexpr double kClearlyBetter = 0.97;

}  // namespace

Adaptation::Adaptation(RankState& state) : state_(state) {
  // One bucket is complete when backward is over: nothing is left to overlap with.
  if (state_.buckets->count() == 1 && state_.accelerator->device_type() == COHORT_DEVICE_CPU) use({false, 0});
}

void Adaptation::after_step() {
  if (!arrival_known_) {
    arrival_known_ = true;
    follow_arrival();
    begin_trial();
  } else if (trial_) {
    trial_->add(state_.engine->step_time());
    if (!trial_->is_over()) return use(modes_[trial_->current()]);
    const size_t best = best_mode();
    use(modes_[best]);
    state_.setup.log.debug(describe(best));
    trial_.reset();
  }
}

void Adaptation::follow_arrival() {
  if (!(state_.layout.asked.flags & COHORT_LAYOUT_ANY_ORDER)) return;
  const auto own = state_.engine->arrival_order();
  LayoutChoice choice = state_.layout;
  choice.arrival_order.assign(own.begin(), own.end());
  state_.broadcast(choice.arrival_order.data(), own.size_bytes(), 0);
  const bool changes = would_change(state_, choice);
  state_.layout = std::move(choice);
  if (changes) lay_out(state_);
}

void Adaptation::begin_trial() {
  if (state_.accelerator->device_type() != COHORT_DEVICE_CPU) return;  // devices communicate beside computing
  if (state_.buckets->count() == 1) return use({false, 0});
  modes_ = {{true, 0}, {false, 0}};
  if (may_resize()) modes_.push_back({true, kSmallBucketBytes});
  trial_.emplace(modes_.size());
  use(modes_.front());
}

bool Adaptation::may_resize() const {
  LayoutChoice small = state_.layout;
  small.measured_size = kSmallBucketBytes;
  if (planned_buckets(state_, small).size() <= state_.buckets->count()) return false;
  // Not where sums depend on what lies in a bucket: a measurement would decide about the last bits of the results.
  const bool by_rank = state_.world_size() == 2 || Collective::of(state_.root->collective).sums_in_rank_order();
  return by_rank && !state_.setup.bucket_size && (state_.layout.asked.flags & COHORT_LAYOUT_ANY_SIZE);
}

size_t Adaptation::best_mode() const {
  uint8_t best = 0;
  for (uint8_t mode = 1; mode < modes_.size(); ++mode) {
    const bool resized = modes_[mode].bucket_size != modes_[best].bucket_size;
    const auto time = static_cast<double>(trial_->time_of(mode).count());
    if (time < static_cast<double>(trial_->time_of(best).count()) * (resized ? kClearlyBetter : 1.0)) best = mode;
  }
  state_.broadcast(&best, sizeof best, 0);
  return best;
}

void Adaptation::use(const Mode& mode) {
  state_.engine->set_overlap(mode.overlap);
  if (state_.layout.measured_size == mode.bucket_size) return;
  state_.layout.measured_size = mode.bucket_size;
  lay_out(state_);
}

std::string Adaptation::describe(size_t best) const {
  std::ostringstream text;
  text << "gradients are averaged " << (modes_[best].overlap ? "during" : "after") << " backward in "
       << state_.buckets->count() << " buckets; microseconds of a step";
  for (size_t mode = 0; mode < modes_.size(); ++mode) {
    text << (modes_[mode].overlap ? ", during" : ", after")
         << (modes_[mode].bucket_size ? " in buckets of 5 MiB: " : ": ") << trial_->time_of(mode).count() / 1000;
  }
  return text.str();
}

}  // namespace cohort::host
