// The slow part of Channel: a wait that did not end by itself, and what it says about the others.
#include <sched.h>

#include <algorithm>

#include "call_text.hpp"
#include "channel.hpp"

namespace cohort::shm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kYieldTime{1};
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(100);

}  // namespace

void Channel::wait_long(const IsDone& is_done, const IsMissing& is_missing) {
  const auto start = Clock::now();
  do {
    ::sched_yield();
    if (is_done()) return;
  } while (Clock::now() - start < kYieldTime);
  const auto need_not_sleep = [&] {
    if (is_done()) return true;
    check_others(is_missing);
    return false;
  };
  const auto deadline = start + options_.timeout;
  for (auto left = options_.timeout; left.count() > 0; left = deadline - Clock::now()) {
    self().doorbell.sleep(std::min(left, kLongestSleep), need_not_sleep);
    if (is_done()) return;
  }
  check_others(is_missing);
  if (is_done()) return;
  int first_missing = 0;
  while (first_missing + 1 < options_.size && !is_missing(first_missing)) ++first_missing;
  fail_because_of(
      first_missing, COHORT_DEADLINE_EXCEEDED,
      names_of_missing(is_missing) + " did not reach " + operation_name() + " within " + describe(options_.timeout));
}

void Channel::fail_because_of(int rank, cohort_status status, const std::string& message) {
  blamed_ = rank;
  throw sdk::Error(status, message);
}

/// The cause first: a process that ended, then a wrong call, then those that gave up because of it.
void Channel::check_others(const IsMissing& is_missing) {
  if (is_aborted_.load(std::memory_order_seq_cst)) {
    throw sdk::Error(COHORT_ABORTED, operation_name() + " was aborted on rank " + std::to_string(options_.rank));
  }
  check_gone(is_missing);
  check_calls(is_missing);
  check_states(is_missing);
}

void Channel::check_gone(const IsMissing& is_missing) {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!is_missing(rank)) continue;
    const int cause = cause_of(rank);
    // Looked at again after the finding, as a rank may do its part, or blame another, and then leave; so below.
    if (!is_gone(cause) || cause_of(rank) != cause || !is_missing(rank)) continue;
    fail_because_of(cause, COHORT_UNAVAILABLE,
                    name_of(cause) + " is gone: its process ended before it finished " + operation_name());
  }
}

/// Ranks that are in another operation with the same number.
void Channel::check_calls(const IsMissing& is_missing) {
  for (int rank = 0; rank < options_.size; ++rank) {
    const uint64_t theirs = control_.rank(rank).current.load(std::memory_order_acquire);
    const bool differs = theirs >> 8 == operation_ && theirs != current_word(operation_, kind_);
    if (!differs || !is_missing(rank)) continue;
    fail_because_of(rank, COHORT_FAILED_PRECONDITION,
                    "ranks disagree on operation #" + std::to_string(operation_) + ": rank " +
                        std::to_string(options_.rank) + " called " + shm::name_of(kind_) + ", rank " +
                        std::to_string(rank) + " called " + shm::name_of(static_cast<OpKind>(theirs & 0xff)));
  }
}

void Channel::check_states(const IsMissing& is_missing) {
  for (int rank = 0; rank < options_.size; ++rank) {
    const RankState state = control_.rank(rank).state.load(std::memory_order_seq_cst);
    if (state <= RankState::kJoined || !is_missing(rank)) continue;
    const int cause = cause_of(rank);
    const std::string why = cause == rank ? "after an error" : "because of " + name_of(cause);
    const std::string how = state == RankState::kAborted  ? " aborted this communicator"
                            : state == RankState::kFailed ? " gave this communicator up " + why
                                                          : " closed this communicator";
    fail_because_of(cause, COHORT_UNAVAILABLE, name_of(rank) + how + " before it finished " + operation_name());
  }
}

bool Channel::is_gone(int rank) const {
  return processes_ && processes_->is_gone(options_.root_ranks[static_cast<std::size_t>(rank)]);
}

/// A rank that waits for one that gave up, or ended after it had, wants to know because of whom.
int Channel::cause_of(int rank) const {
  for (int step = 0; step < options_.size; ++step) {
    const int blamed = control_.rank(rank).blamed.load(std::memory_order_acquire);
    if (blamed < 0) break;
    rank = blamed;
  }
  return rank;
}

std::string Channel::name_of(int rank) const {
  const int32_t pid = control_.rank(rank).pid.load(std::memory_order_relaxed);
  const auto root_rank = static_cast<std::size_t>(options_.root_ranks[static_cast<std::size_t>(rank)]);
  return "rank " + std::to_string(options_.job_ranks[root_rank]) +
         (pid ? " (pid " + std::to_string(pid) + ")" : " (not connected)");
}

std::string Channel::names_of_missing(const IsMissing& is_missing) const {
  std::string names;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (is_missing(rank)) names += (names.empty() ? "" : ", ") + name_of(rank);
  }
  return names.empty() ? "every rank" : names;
}

}  // namespace cohort::shm
