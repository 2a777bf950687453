#include "channel.hpp"

#include <unistd.h>

#include "call_text.hpp"

namespace cohort::shm {

Channel::Channel(Segment segment, ChannelOptions options, std::shared_ptr<const Processes> processes)
    : segment_(std::move(segment)),
      options_(std::move(options)),
      control_(segment_.data(), options_.size),
      processes_(std::move(processes)) {
  self().pid.store(::getpid(), std::memory_order_relaxed);
  self().state.store(RankState::kJoined, std::memory_order_release);
}

Channel::~Channel() {
  leave(RankState::kClosed);
}

std::string Channel::operation_name() const {
  return std::string(shm::name_of(kind_)) + " #" + std::to_string(operation_);
}

void Channel::begin(OpKind kind) {
  if (broken_) {
    throw sdk::Error(broken_->status(),
                     std::string("this communicator is unusable since an earlier error: ") + broken_->what(),
                     broken_->peers());
  }
  ++operation_;
  kind_ = kind;
  self().current.store(current_word(operation_, kind), std::memory_order_release);
  if (is_aborted_.load(std::memory_order_acquire)) {
    throw sdk::Error(COHORT_ABORTED, operation_name() + " was aborted on rank " + std::to_string(options_.rank));
  }
}

void Channel::break_off(const sdk::Error& error) noexcept {
  broken_.emplace(error);
  leave(RankState::kFailed);
}

/// Only the first reason is kept.
void Channel::leave(RankState state) noexcept {
  RankState joined = RankState::kJoined;
  self().state.compare_exchange_strong(joined, state);
  for (int rank = 0; rank < options_.size; ++rank) notify(rank);
}

void Channel::abort() noexcept {
  is_aborted_.store(true, std::memory_order_seq_cst);
  leave(RankState::kAborted);
}

void Channel::meet(const Call& call) {
  Post& post = self().posts[(barrier_ + 1) & 1u];
  post.call = call;
  arrive_and_wait(post);
  for (int rank = 1; rank < options_.size; ++rank) {
    if (!agree(call_of(rank), call_of(0))) throw_disagreement(rank);
  }
}

void Channel::meet_again() {
  arrive_and_wait(self().posts[(barrier_ + 1) & 1u]);
}

void Channel::arrive_and_wait(Post& post) {
  ++barrier_;
  post.barrier.store(barrier_, std::memory_order_seq_cst);
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank) notify(rank);
  }
  // A rank that is one ahead has written its other post, and none is two ahead.
  const auto is_missing = [this](int rank) {
    return control_.rank(rank).posts[barrier_ & 1u].barrier.load(std::memory_order_seq_cst) != barrier_;
  };
  int first_missing = 0;
  const auto is_done = [&] {
    while (first_missing < options_.size && !is_missing(first_missing)) ++first_missing;
    return first_missing == options_.size;
  };
  wait(is_done, is_missing);
}

void Channel::throw_disagreement(int rank) const {
  std::string theirs = describe(call_of(rank));
  if (theirs == describe(call_of(0))) theirs += " with other counts by rank";
  throw AgreedError(COHORT_FAILED_PRECONDITION, "ranks disagree on operation #" + std::to_string(operation_) +
                                                    ": rank 0 called " + describe(call_of(0)) + ", rank " +
                                                    std::to_string(rank) + " called " + theirs);
}

}  // namespace cohort::shm
