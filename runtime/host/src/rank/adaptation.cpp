#include "adaptation.hpp"

#include <algorithm>
#include <sstream>

#include "given/given_args.hpp"
#include "rank_state.hpp"
#include "tuning_report.hpp"

namespace cohort::host {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSizesToTry[] = {1 * kMiB, 2 * kMiB, 5 * kMiB, 10 * kMiB, 25 * kMiB, 50 * kMiB, 100 * kMiB};
constexpr double kClearlyBetter = 0.97;
constexpr size_t kTrials = 3;  // sizes, overlap, settings

std::vector<uint64_t> parts_per_bucket(const std::vector<BucketPlan>& plans) {
  std::vector<uint64_t> parts;
  for (const BucketPlan& plan : plans) parts.push_back(plan.parts.size());
  return parts;
}

}  // namespace

Adaptation::Adaptation(RankState& state) : state_(state) {
  use({.overlap = !has_nothing_to_overlap()});
  if (!autotunes()) return;
  cohort_strategy* const strategy = state_.strategy();
  tunable_ = given(static_cast<const cohort_tunable_1*>(strategy->vt->get_extension(strategy, COHORT_TUNABLE_ID)));
}

// One bucket is complete when backward is over. Devices communicate beside computing.
bool Adaptation::has_nothing_to_overlap() const {
  return state_.buckets->count() == 1 && state_.accelerator->device_type() == COHORT_DEVICE_CPU;
}

bool Adaptation::autotunes() const {
  return state_.setup.autotune_file.has_value();
}

void Adaptation::after_step() {
  if (!arrival_known_) {
    arrival_known_ = true;
    follow_arrival();
    use({.overlap = !has_nothing_to_overlap()});
    begin_trial();
  } else if (trial_) {
    trial_->add(state_.training.engine->step_time());
    if (!trial_->is_over()) return use(modes_[trial_->current()]);
    end_trial();
  }
}

void Adaptation::follow_arrival() {
  if ((state_.training.layout.plan.flags & COHORT_PLAN_KEEP_ORDER) || !state_.buckets->has(COHORT_BUCKET_GRAD)) return;
  const auto own = state_.training.engine->arrival_order();
  LayoutChoice choice = state_.training.layout;
  choice.arrival_order.assign(own.begin(), own.end());
  state_.comms.broadcast(choice.arrival_order.data(), own.size_bytes(), 0);
  const bool changes = would_change(state_, choice);
  state_.training.layout = std::move(choice);
  if (changes) lay_out_again();
}

void Adaptation::begin_trial() {
  if (!autotunes()) return;
  while (trials_ < kTrials) {
    modes_ = candidates();
    ++trials_;
    if (modes_.size() < 2) continue;
    trial_.emplace(modes_.size());
    return use(modes_.front());
  }
  if (time_at_first_.count() == 0) report({});
}

void Adaptation::end_trial() {
  const size_t best = best_mode();
  const auto time = trial_->time_of(best);
  if (time_at_first_.count() == 0) time_at_first_ = trial_->time_of(0);
  use(modes_[best]);
  state_.setup.log.debug(describe(best));
  trial_.reset();
  begin_trial();
  if (!trial_) report(time);
}

std::vector<StepMode> Adaptation::candidates() const {
  switch (trials_) {
    case 0:
      return sizes_to_try();
    case 1:
      if (state_.accelerator->device_type() != COHORT_DEVICE_CPU || state_.buckets->count() == 1) return {};
      return {mode_, {false, mode_.bucket_size, mode_.setting}};
    default:
      return settings_to_try();
  }
}

// Those that make a difference for this model; a size of the user's stays.
std::vector<StepMode> Adaptation::sizes_to_try() const {
  std::vector<StepMode> modes{mode_};
  if (state_.setup.bucket_size) return modes;
  std::vector<std::vector<uint64_t>> seen{parts_per_bucket(planned_buckets(state_, state_.training.layout))};
  for (const uint64_t size : kSizesToTry) {
    LayoutChoice choice = state_.training.layout;
    choice.measured_size = size;
    const auto parts = parts_per_bucket(planned_buckets(state_, choice));
    if (std::ranges::find(seen, parts) != seen.end()) continue;
    seen.push_back(parts);
    modes.push_back({parts.size() > 1, size, mode_.setting});
  }
  return modes;
}

std::vector<StepMode> Adaptation::settings_to_try() const {
  std::vector<StepMode> modes;
  for (uint32_t i = 0; tunable_ && i < tunable_->count; ++i) modes.push_back({mode_.overlap, mode_.bucket_size, i});
  return modes;
}

size_t Adaptation::best_mode() const {
  uint8_t best = 0;
  for (uint8_t mode = 1; mode < modes_.size(); ++mode) {
    const bool resized = modes_[mode].bucket_size != modes_[best].bucket_size;
    const auto time = static_cast<double>(trial_->time_of(mode).count());
    if (time < static_cast<double>(trial_->time_of(best).count()) * (resized ? kClearlyBetter : 1.0)) best = mode;
  }
  state_.comms.broadcast(&best, sizeof best, 0);
  return best;
}

void Adaptation::use(const StepMode& mode) {
  state_.training.engine->set_overlap(mode.overlap);
  const bool changes = mode.setting != mode_.setting;
  if (changes) state_.host.check(tunable_->use(tunable_->data, mode.setting), COHORT_TUNABLE_ID);
  mode_ = mode;
  if (!changes && state_.training.layout.measured_size == mode.bucket_size) return;
  state_.training.layout.measured_size = mode.bucket_size;
  lay_out_again();
}

void Adaptation::lay_out_again() {
  lay_out(state_);
  announce_layout(state_, COHORT_LAYOUT_AGAIN);
}

std::string Adaptation::describe(size_t best) const {
  std::ostringstream text;
  text << "gradients are averaged " << (modes_[best].overlap ? "during" : "after") << " backward in "
       << state_.buckets->count() << " buckets; microseconds of a step";
  for (size_t i = 0; i < modes_.size(); ++i) {
    const StepMode& mode = modes_[i];
    text << (mode.overlap ? ", during" : ", after");
    if (mode.bucket_size) text << " in buckets of " << mode.bucket_size / kMiB << " MiB";
    if (tunable_ && mode.setting) text << " with " << tunable_->settings[mode.setting];
    text << ": " << trial_->time_of(i).count() / 1000;
  }
  return text.str();
}

void Adaptation::report(std::chrono::nanoseconds time) const {
  if (state_.rank() != 0) return;
  const bool changes_setting = tunable_ && mode_.setting != 0;
  const TuningResult result{state_.setup.selection.strategy, mode_.bucket_size,
                            changes_setting ? tunable_->settings[mode_.setting] : "", time_at_first_, time};
  state_.setup.log.info(text_of(result));
  if (time.count() > 0) write_config(result, *state_.setup.autotune_file);
}

}  // namespace cohort::host
