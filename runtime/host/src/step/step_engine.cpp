#include <cohort/host/step_engine.hpp>

#include <algorithm>
#include <utility>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>

#include "communicator/op_args.hpp"

namespace cohort::host {
namespace {

constexpr uint64_t kStopBit = 1;
constexpr uint64_t kOutOfDataBit = 2;
constexpr uint64_t kOverflowBit = 4;
constexpr size_t kVoteWords = 1;
constexpr size_t kBitsPerWord = 64;

cohort_op_args or_args(uint64_t* words, uint64_t count) {
  cohort_op_args args = op_args(COHORT_UINT64, words, count);
  args.reduce = COHORT_REDUCE_BIT_OR;
  return args;
}

std::string describe(const cohort_bucket& bucket) {
  std::string names = bucket.parts[0].name;
  if (bucket.num_parts > 1) names += std::string(" .. ") + bucket.parts[bucket.num_parts - 1].name;
  return "bucket " + std::to_string(bucket.index) + " (" + names + ", " + std::to_string(bucket.num_parts) +
         " parameters)";
}

}  // namespace

StepEngine::StepEngine(const Parts& parts) : parts_(parts), gradient_streams_(parts.devices) {
  const size_t parameters = parts_.model.parameters().size();
  for (uint32_t id = 0; id < parameters; ++id) phase_of_.push_back(parts_.model.phase_of(id));
  arrivals_.complete.assign(parameters * num_replicas(), 0);
  arrivals_.reached.assign(parameters * num_replicas(), 0);
  flags_.used.assign(parameters, 0);
  flags_.words.assign(kVoteWords + (parameters + kBitsPerWord - 1) / kBitsPerWord, 0);
  arrivals_.order.reserve(parameters);
  phases_.resize(std::max(1u, parts_.model.num_phases()));
  layout_changed();
}

void StepEngine::layout_changed() {
  wants_gradients_ = parts_.buckets.has(COHORT_BUCKET_GRAD) && parts_.buckets.count() > 0;
  are_dropped_ = parts_.layers && parts_.layers->have_dropped_gradients();
  bucket_of_.assign(num_parameters(), kNoBucket);
  arrivals_.pending.assign(parts_.buckets.count(), 0);
  gradient_streams_.resize(parts_.buckets.count());
  purposes_.clear();
  for (uint32_t index = 0; index < parts_.buckets.count(); ++index) {
    const cohort_bucket& bucket = *parts_.buckets.get(index);
    for (const auto& part : std::span(bucket.parts, bucket.num_parts)) bucket_of_[part.id] = index;
    purposes_.push_back(std::make_shared<const std::string>(describe(bucket)));
  }
}

cohort_step StepEngine::step_of(uint32_t phase) const {
  const Phase& p = phases_[phase];
  const bool is_last = !phases_in_order_ || phase + 1 == phases_.size();
  return {sizeof(cohort_step), p.flags | (is_last ? COHORT_STEP_LAST_PHASE : 0u), p.steps, p.micro, phase, p.loss};
}

// The count of micro-batches is that before this backward, so that a second first one shows.
cohort_step StepEngine::step_of_backward() const {
  cohort_step step = step_of(phase_);
  if (step.micro > 0 && (step.flags & COHORT_STEP_FIRST)) step.flags |= COHORT_STEP_REPEATED;
  return step;
}

std::vector<uint64_t> StepEngine::steps_by_phase() const {
  std::vector<uint64_t> steps;
  for (const Phase& phase : phases_) steps.push_back(phase.steps);
  return steps;
}

void StepEngine::resume_after(std::span<const uint64_t> steps) {
  for (size_t phase = 0; phase < phases_.size(); ++phase) phases_[phase].steps = steps[phase];
}

void StepEngine::begin(bool last, uint32_t phase, bool in_order) {
  phases_in_order_ = in_order;
  attempt_.reset();
  if (std::exchange(abandoned_, false)) parts_.lane->drain();
  Phase& current = phases_[phase];
  if (current.open && current.micro > 0 && (current.flags & COHORT_STEP_LAST)) {
    throw UserError(
        "a second backward after the gradients were averaged: call step() first, or put all but the last backward of a "
        "step under no_sync()");
  }
  phase_ = phase;
  if (!current.open) begin_window();
  current.loss = nullptr;
  current.flags = (current.micro == 0 ? COHORT_STEP_FIRST : 0u) | (last ? COHORT_STEP_LAST : 0u);
  select(phase);
  const cohort_step step = step_of(phase);
  check(parts_.strategy->vt->begin_step(parts_.strategy, &step), "begin_step");
}

void StepEngine::select(uint32_t phase) {
  phase_ = phase;
  partial_ = false;
  if (is_last() && wants_gradients_) begin_reduction();
}

void StepEngine::begin_window() {
  phases_[phase_].open = true;
  phases_[phase_].micro = 0;
  step_begun_ = std::chrono::steady_clock::now();
  for (size_t i = 0; i < arrivals_.reached.size(); ++i) {
    if (phase_of_[i % num_parameters()] == phase_) arrivals_.reached[i] = 0;
  }
}

void StepEngine::begin_reduction() {
  reduction_step_ = step_of_backward();
  arrivals_.order.clear();
  std::fill(arrivals_.complete.begin(), arrivals_.complete.end(), uint8_t{0});
  for (size_t index = 0; index < arrivals_.pending.size(); ++index) {
    arrivals_.pending[index] = is_of_phase(index) ? parts_.buckets.get(index)->num_parts * num_replicas() : 0;
  }
  size_t& next = arrivals_.next_bucket;
  for (next = 0; next < arrivals_.pending.size() && !is_of_phase(next);) ++next;
}

void StepEngine::gradient_ready(uint32_t parameter, uint32_t replica) {
  const std::lock_guard lock(arrivals_.mutex);
  arrivals_.reached[replica * num_parameters() + parameter] = 1;
  if (wants_gradients_ && is_last() && !partial_) complete(parameter, replica);
}

void StepEngine::gradients_complete(std::span<const uint32_t> parameters) {
  const std::lock_guard lock(arrivals_.mutex);
  if (!wants_gradients_ || !is_last()) return;
  for (const uint32_t parameter : parameters) {
    const bool is_there = arrivals_.reached[parameter] && parts_.model.has_gradient(0, parameter);
    if (phase_of_[parameter] == phase_ && is_there) complete(parameter, 0);
  }
}

void StepEngine::complete(uint32_t parameter, uint32_t replica) {
  const uint32_t bucket = bucket_of_[parameter];
  if (bucket == kNoBucket) return;
  if (std::exchange(arrivals_.complete[replica * num_parameters() + parameter], uint8_t{1})) {
    // A backward inside the backward reached it too. Harmless as long as its bucket still waits.
    if (bucket >= arrivals_.next_bucket) return;
    throw UserError("the gradient of '" + std::string(parts_.model.parameters()[parameter].name) +
                    "' changed after it was sent: two backward passes of one step reach it; use no_sync() for all but "
                    "the last backward");
  }
  gradient_streams_.note(bucket);
  if (--arrivals_.pending[bucket] == 0) gradient_streams_.complete(bucket);
  if (replica == 0) arrivals_.order.push_back(parameter);
  // In index order, whatever the order of completion: so all ranks reduce the same bucket at the same time.
  size_t& next = arrivals_.next_bucket;
  for (; next < arrivals_.pending.size() && arrivals_.pending[next] == 0; ++next) {
    if (!sends_at_once() || !is_of_phase(next)) continue;
    if (attempt_) attempt_->has_sent = true;
    parts_.lane->submit([this, ready = next] { reduce(ready); });
  }
}

void StepEngine::reduce(size_t bucket) {
  if (parts_.flags_comm) parts_.host.recorder().set_purpose(parts_.flags_comm, purposes_[bucket]);
  const cohort_bucket& reduced = *parts_.buckets.get(bucket);
  const FlightRecorder::Reduction observed(parts_.host.recorder(), reduced.index, reduced.nbytes, purposes_[bucket]);
  gradient_streams_.follow(bucket);
  if (num_replicas() > 1) sum_replicas(reduced);
  if (parts_.model.has_loss_scale()) parts_.model.unscale(reduced);
  parts_.buckets.open_gradients(bucket);
  const cohort_status status = parts_.strategy->vt->reduce_bucket(parts_.strategy, &reduction_step_, &reduced);
  if (status != COHORT_OK) check(status, ("reduce_bucket of " + *purposes_[bucket]).c_str());
}

// Onto replica 0, left to right.
void StepEngine::sum_replicas(const cohort_bucket& bucket) {
  std::vector<const void*> gradients;
  const cohort_stream stream = parts_.devices.current({bucket.device_type, bucket.device_index});
  for (const auto& part : std::span(bucket.parts, bucket.num_parts)) {
    gradients.clear();
    for (uint32_t replica = 0; replica < num_replicas(); ++replica) {
      if (const void* const gradient = parts_.model.gradient_data(replica, part.id)) gradients.push_back(gradient);
    }
    if (gradients.size() < 2) continue;  // only replica 0's, which always has one
    check(parts_.kernels.sum_of_n(parts_.kernels.accelerator, parts_.model.gradient_data(0, part.id), gradients.data(),
                                  gradients.size(), bucket.dtype, part.numel, 1.0, &stream),
          "sum over replicas");
  }
}

void StepEngine::end_backward() {
  if (is_last() && wants_gradients_) {
    complete_rest();
    finish_reduction();
  } else if (is_last()) {
    flags_.agreed = {};
    const bool has_scale = parts_.model.has_loss_scale();
    if (has_scale) parts_.model.unscale(phase_);
    flags_.own.overflow = has_scale && parts_.model.take_overflow();
    const bool is_asked = has_scale || (phases_[phase_].steps + 1) % flags_.interval == 0;
    if (!parts_.control_comm || is_asked) exchange_votes();
    flags_.own.overflow = false;
  }
  if (is_last()) phases_[phase_].overflow = flags_.agreed.overflow;
  if (is_last() && reads_loss()) phases_[phase_].loss = parts_.model.loss(phase_, first_parameter());
  const cohort_step step = step_of_backward();
  check(parts_.strategy->vt->end_backward(parts_.strategy, &step), "end_backward");
  ++phases_[phase_].micro;
  attempt_.reset();
}

uint32_t StepEngine::first_parameter() const {
  for (uint32_t index = 0; index < parts_.buckets.count(); ++index) {
    if (is_of_phase(index)) return parts_.buckets.get(index)->parts[0].id;
  }
  return static_cast<uint32_t>(std::ranges::find(phase_of_, phase_) - phase_of_.begin());
}

void StepEngine::complete_rest() {
  const std::lock_guard lock(arrivals_.mutex);
  for (uint32_t replica = 0; replica < num_replicas(); ++replica) {
    for (uint32_t parameter = 0; parameter < num_parameters(); ++parameter) {
      const size_t index = replica * num_parameters() + parameter;
      if (bucket_of_[parameter] == kNoBucket || phase_of_[parameter] != phase_ || arrivals_.complete[index]) continue;
      const bool is_there = arrivals_.reached[index] && parts_.model.has_gradient(replica, parameter);
      if (!is_there) parts_.model.zero_gradient(replica, parameter);
      complete(parameter, replica);
    }
  }
}

// The flags travel behind the last bucket on the same lane: when they are back, so are all gradients.
void StepEngine::finish_reduction() {
  collect_flags();
  if (sends_at_once()) {
    parts_.lane->wait(parts_.lane->submit([this] { exchange_flags(); }));
  } else {
    parts_.lane->run_here([this] {
      for (size_t bucket = 0; bucket < arrivals_.pending.size(); ++bucket) {
        if (is_of_phase(bucket)) reduce(bucket);
      }
      exchange_flags();
    });
  }
  read_flags();
}

void StepEngine::collect_flags() {
  std::fill(flags_.words.begin(), flags_.words.end(), uint64_t{0});
  flags_.words[0] = vote_word();
  for (size_t index = 0; index < arrivals_.reached.size(); ++index) {
    const size_t parameter = index % num_parameters();
    const uint64_t bit = arrivals_.reached[index] ? 1u : 0u;
    flags_.words[kVoteWords + parameter / kBitsPerWord] |= bit << (parameter % kBitsPerWord);
  }
}

void StepEngine::exchange_flags() {
  // Behind the last bucket: with a loss scale this is where a step waits for the device.
  if (parts_.model.has_loss_scale() && parts_.model.take_overflow()) flags_.words[0] |= kOverflowBit;
  if (!parts_.flags_comm) return;
  parts_.host.recorder().set_purpose(parts_.flags_comm, flags_.purpose);
  check(run_all_reduce(parts_.flags_comm, or_args(flags_.words.data(), flags_.words.size()), nullptr),
        "exchange of flags");
}

bool StepEngine::is_reached(size_t parameter) const {
  size_t index = parameter;  // of replica 0
  while (index < arrivals_.reached.size() && !arrivals_.reached[index]) index += num_parameters();
  return index < arrivals_.reached.size();
}

void StepEngine::read_flags() {
  read_votes(flags_.words[0]);
  for (size_t parameter = 0; parameter < num_parameters(); ++parameter) {
    if (phase_of_[parameter] != phase_) continue;
    const uint64_t word = flags_.words[kVoteWords + parameter / kBitsPerWord];
    const bool on_any = (word >> (parameter % kBitsPerWord) & 1u) != 0;
    // Zeros in place of a gradient that is not averaged would be a step of this rank's optimizer.
    flags_.used[parameter] = (are_dropped_ ? is_reached(parameter) : on_any) ? 1 : 0;
    // The mean is there now, for another backward of this step to add to.
    arrivals_.reached[parameter] |= flags_.used[parameter];
  }
}

uint64_t StepEngine::vote_word() const {
  return (flags_.own.stop ? kStopBit : 0) | (flags_.own.out_of_data ? kOutOfDataBit : 0) |
         (flags_.own.overflow ? kOverflowBit : 0);
}

void StepEngine::read_votes(uint64_t word) {
  flags_.agreed = {(word & kStopBit) != 0, (word & kOutOfDataBit) != 0, (word & kOverflowBit) != 0};
}

// For strategies without gradients: ranks that leave a loop at different steps would wait for each other.
void StepEngine::exchange_votes() {
  uint64_t word = vote_word();
  if (parts_.control_comm) {
    parts_.host.recorder().set_purpose(parts_.control_comm, flags_.purpose);
    check(run_all_reduce(parts_.control_comm, or_args(&word, 1), nullptr), "exchange of votes");
  }
  read_votes(word);
}

void StepEngine::check_steppable(uint32_t phase) const {
  const Phase& current = phases_[phase];
  if (!current.open || current.micro == 0) {
    throw UserError("step() without a backward: call begin(), forward and backward(loss) first");
  }
  if (!(current.flags & COHORT_STEP_LAST)) {
    throw UserError("step() right after a backward under no_sync(): the last backward of a step must be outside of it");
  }
}

void StepEngine::clip_gradients(uint32_t phase, int32_t by, double limit, double* norm) {
  check_steppable(phase);
  phase_ = phase;
  const cohort_step step = step_of(phase);
  const cohort_clip_args args{sizeof args, by, limit, norm, nullptr};
  check(parts_.strategy->vt->clip_gradients(parts_.strategy, &step, &args), "clip_gradients");
}

void StepEngine::repeat(uint32_t phase) {
  check_steppable(phase);
  phases_[phase].open = false;
  begin(/*last=*/true, phase, phases_in_order_);
}

void StepEngine::optimizer_step(uint32_t phase) {
  check_steppable(phase);
  phase_ = phase;
  cohort_step step = step_of(phase);
  if (phases_[phase].overflow) {
    step.flags |= COHORT_STEP_SKIPPED;
  } else {
    check(parts_.strategy->vt->optimizer_step(parts_.strategy, &step), "optimizer_step");
  }
  check(parts_.strategy->vt->end_step(parts_.strategy, &step), "end_step");
  parts_.model.refresh_replicas();
  parts_.buckets.close_gradients(phase);
  ++phases_[phase].steps;
  phases_[phase].open = false;
  step_time_ = std::chrono::steady_clock::now() - step_begun_;
}

void StepEngine::count_replayed_step() {
  flags_.agreed = {};
  if (!parts_.control_comm || (phases_[0].steps + 1) % flags_.interval == 0) exchange_votes();
  ++phases_[0].steps;
}

void StepEngine::leave_capture() {
  if (parts_.lane) parts_.lane->run([] {});
}

void StepEngine::abandon() {
  const std::lock_guard lock(arrivals_.mutex);
  for (Phase& phase : phases_) phase.open = false;
  abandoned_ = true;
}

void StepEngine::begin_attempt(bool holds) {
  attempt_ = Attempt{phases_, arrivals_.reached, holds};
}

bool StepEngine::take_back() {
  if (!attempt_ || attempt_->has_sent) return false;
  phases_ = attempt_->phases;
  arrivals_.reached = attempt_->reached;
  abandoned_ = false;
  select(phase_);
  return true;
}

void StepEngine::check(cohort_status status, const char* slot) {
  if (status != COHORT_OK) parts_.host.check(status, "step " + std::to_string(phases_[phase_].steps) + ", " + slot);
}

}  // namespace cohort::host
