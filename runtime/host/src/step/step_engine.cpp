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

StepEngine::StepEngine(const Parts& parts)
    : parts_(parts),
      wants_gradients_(parts.lane && parts.buckets.wanted(COHORT_BUCKET_GRAD) && parts.buckets.count() > 0) {
  const size_t parameters = parts_.model.parameters().size();
  bucket_of_.assign(parameters, kNoBucket);
  complete_.assign(parameters, 0);
  reached_.assign(parameters, 0);
  flag_words_.assign(kVoteWords + (parameters + kBitsPerWord - 1) / kBitsPerWord, 0);
  arrival_order_.reserve(parameters);
  step_.struct_size = sizeof step_;
  layout_changed();
}

void StepEngine::layout_changed() {
  pending_.assign(parts_.buckets.count(), 0);
  purposes_.clear();
  for (uint32_t index = 0; index < parts_.buckets.count(); ++index) {
    const cohort_bucket& bucket = *parts_.buckets.get(index);
    for (const auto& part : std::span(bucket.parts, bucket.num_parts)) bucket_of_[part.id] = index;
    purposes_.push_back(std::make_shared<const std::string>(describe(bucket)));
  }
}

void StepEngine::begin(bool last) {
  if (step_open_ && step_.micro > 0 && (step_.flags & COHORT_STEP_LAST)) {
    throw UserError(
        "a second backward after the gradients were averaged: call step() first, or put all but the last backward of a "
        "step under no_sync()");
  }
  if (!step_open_) begin_window();
  step_.flags = (step_.micro == 0 ? COHORT_STEP_FIRST : 0u) | (last ? COHORT_STEP_LAST : 0u);
  if (last && wants_gradients_) begin_reduction();
  check(parts_.strategy->vt->begin_step(parts_.strategy, &step_), "begin_step");
}

void StepEngine::begin_window() {
  step_open_ = true;
  step_.micro = 0;
  step_begun_ = std::chrono::steady_clock::now();
  std::fill(reached_.begin(), reached_.end(), uint8_t{0});
}

void StepEngine::begin_reduction() {
  next_bucket_ = 0;
  arrival_order_.clear();
  std::fill(complete_.begin(), complete_.end(), uint8_t{0});
  for (size_t index = 0; index < pending_.size(); ++index) pending_[index] = parts_.buckets.get(index)->num_parts;
}

void StepEngine::gradient_ready(uint32_t parameter) {
  reached_[parameter] = 1;
  if (step_.flags & COHORT_STEP_LAST) complete(parameter);
}

void StepEngine::complete(uint32_t parameter) {
  const uint32_t bucket = bucket_of_[parameter];
  if (bucket == kNoBucket) return;
  if (std::exchange(complete_[parameter], uint8_t{1})) {
    // A backward inside the backward reached it too. Harmless as long as its bucket still waits.
    if (bucket >= next_bucket_) return;
    throw UserError("the gradient of '" + std::string(parts_.model.parameters()[parameter].name) +
                    "' changed after it was sent: two backward passes of one step reach it; use no_sync() for all but "
                    "the last backward");
  }
  --pending_[bucket];
  arrival_order_.push_back(parameter);
  // In index order, whatever the order of completion: so all ranks reduce the same bucket at the same time.
  for (; next_bucket_ < pending_.size() && pending_[next_bucket_] == 0; ++next_bucket_) {
    if (overlap_) parts_.lane->submit([this, ready = next_bucket_] { reduce(ready); });
  }
}

void StepEngine::reduce(size_t bucket) {
  parts_.host.recorder().set_purpose(parts_.flags_comm, purposes_[bucket]);
  const cohort_status status = parts_.strategy->vt->reduce_bucket(parts_.strategy, parts_.buckets.get(bucket));
  if (status != COHORT_OK) check(status, ("reduce_bucket of " + *purposes_[bucket]).c_str());
}

void StepEngine::end_backward() {
  if ((step_.flags & COHORT_STEP_LAST) && wants_gradients_) {
    for (uint32_t parameter = 0; parameter < bucket_of_.size(); ++parameter) {
      if (bucket_of_[parameter] == kNoBucket || complete_[parameter]) continue;
      if (!reached_[parameter]) parts_.model.zero_gradient(parameter);
      complete(parameter);
    }
    finish_reduction();
  } else {
    exchange_votes();
  }
  check(parts_.strategy->vt->end_backward(parts_.strategy, &step_), "end_backward");
  ++step_.micro;
}

// The flags travel behind the last bucket on the same lane: when they are back, so are all gradients.
void StepEngine::finish_reduction() {
  collect_flags();
  if (overlap_) {
    parts_.lane->wait(parts_.lane->submit([this] { exchange_flags(); }));
  } else {
    parts_.lane->run_here([this] {
      for (size_t bucket = 0; bucket < pending_.size(); ++bucket) reduce(bucket);
      exchange_flags();
    });
  }
  read_votes(flag_words_[0]);
}

void StepEngine::collect_flags() {
  std::fill(flag_words_.begin(), flag_words_.end(), uint64_t{0});
  flag_words_[0] = vote_word();
  for (size_t parameter = 0; parameter < reached_.size(); ++parameter) {
    const uint64_t bit = reached_[parameter] ? 1u : 0u;
    flag_words_[kVoteWords + parameter / kBitsPerWord] |= bit << (parameter % kBitsPerWord);
  }
}

void StepEngine::exchange_flags() {
  parts_.host.recorder().set_purpose(parts_.flags_comm, votes_);
  const cohort_op_args args = or_args(flag_words_.data(), flag_words_.size());
  check(run_all_reduce(parts_.flags_comm, args, nullptr), "exchange of flags");
}

uint64_t StepEngine::vote_word() const {
  return (own_votes_.stop ? kStopBit : 0) | (own_votes_.out_of_data ? kOutOfDataBit : 0);
}

void StepEngine::read_votes(uint64_t word) {
  agreed_votes_ = {(word & kStopBit) != 0, (word & kOutOfDataBit) != 0};
}

// For strategies without gradients: ranks that leave a loop at different steps would wait for each other.
void StepEngine::exchange_votes() {
  uint64_t word = vote_word();
  if (parts_.control_comm && (step_.flags & COHORT_STEP_LAST)) {
    parts_.host.recorder().set_purpose(parts_.control_comm, votes_);
    check(run_all_reduce(parts_.control_comm, or_args(&word, 1), nullptr), "exchange of votes");
  }
  read_votes(word);
}

void StepEngine::optimizer_step() {
  if (!step_open_ || step_.micro == 0) {
    throw UserError("step() without a backward: call begin(), forward and backward(loss) first");
  }
  if (!(step_.flags & COHORT_STEP_LAST)) {
    throw UserError("step() right after a backward under no_sync(): the last backward of a step must be outside of it");
  }
  check(parts_.strategy->vt->optimizer_step(parts_.strategy, &step_), "optimizer_step");
  check(parts_.strategy->vt->end_step(parts_.strategy, &step_), "end_step");
  ++step_.step;
  step_open_ = false;
  step_time_ = std::chrono::steady_clock::now() - step_begun_;
}

void StepEngine::abandon() {
  step_open_ = false;
}

bool StepEngine::is_used(uint32_t parameter) const {
  if (!wants_gradients_) return is_used_here(parameter);
  return (flag_words_[kVoteWords + parameter / kBitsPerWord] >> (parameter % kBitsPerWord)) & 1u;
}

void StepEngine::check(cohort_status status, const char* slot) {
  if (status != COHORT_OK) parts_.host.check(status, "step " + std::to_string(step_.step) + ", " + slot);
}

}  // namespace cohort::host
