// The slow part of Channel: a wait that did not end by itself, and what it says about the others.
#include <sched.h>

#include <algorithm>
#include <utility>

#include <cohort/sdk/duration.hpp>

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
  std::vector<int> missing;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (is_missing(rank)) missing.push_back(rank);
  }
  fail(missing, COHORT_DEADLINE_EXCEEDED,
       names_of(missing) + " did not reach " + operation_name() + " within " + sdk::in_words(options_.timeout));
}

void Channel::fail(const std::vector<int>& ranks, cohort_status status, const std::string& message) const {
  std::vector<int32_t> peers;
  for (const int rank : ranks) peers.push_back(options_.root_ranks[static_cast<std::size_t>(rank)]);
  throw sdk::Error(status, message, std::move(peers));
}

/// A process that ended, then a wrong call, then a rank that gave up.
void Channel::check_others(const IsMissing& is_missing) {
  if (is_aborted_.load(std::memory_order_seq_cst)) {
    throw sdk::Error(COHORT_ABORTED, operation_name() + " was aborted on rank " + std::to_string(options_.rank));
  }
  check_gone(is_missing);
  check_calls(is_missing);
  check_states(is_missing);
}

/// Ranks that ended without having left the communicator.
void Channel::check_gone(const IsMissing& is_missing) {
  std::vector<int> gone;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!is_missing(rank) || !is_gone(rank)) continue;
    // Looked at after the finding, as a rank may do its part, or give up, and then end; so below.
    if (control_.rank(rank).state.load(std::memory_order_seq_cst) > RankState::kJoined || !is_missing(rank)) continue;
    gone.push_back(rank);
  }
  if (gone.empty()) return;
  fail(gone, COHORT_UNAVAILABLE, names_of(gone) + " is gone: its process ended before it finished " + operation_name());
}

/// Ranks that are in another operation with the same number.
void Channel::check_calls(const IsMissing& is_missing) {
  for (int rank = 0; rank < options_.size; ++rank) {
    const uint64_t theirs = control_.rank(rank).current.load(std::memory_order_acquire);
    const bool differs = theirs >> 8 == operation_ && theirs != current_word(operation_, kind_);
    if (!differs || !is_missing(rank)) continue;
    fail({rank}, COHORT_FAILED_PRECONDITION,
         "ranks disagree on operation #" + std::to_string(operation_) + ": rank " + std::to_string(options_.rank) +
             " called " + shm::name_of(kind_) + ", rank " + std::to_string(rank) + " called " +
             shm::name_of(static_cast<OpKind>(theirs & 0xff)));
  }
}

void Channel::check_states(const IsMissing& is_missing) {
  for (int rank = 0; rank < options_.size; ++rank) {
    const RankState state = control_.rank(rank).state.load(std::memory_order_seq_cst);
    if (state <= RankState::kJoined || !is_missing(rank)) continue;
    const std::string how = state == RankState::kAborted  ? " aborted this communicator"
                            : state == RankState::kFailed ? " gave this communicator up after an error"
                                                          : " closed this communicator";
    fail({rank}, COHORT_UNAVAILABLE, name_of(rank) + how + " before it finished " + operation_name());
  }
}

bool Channel::is_gone(int rank) const {
  return processes_ && processes_->is_gone(options_.root_ranks[static_cast<std::size_t>(rank)]);
}

std::string Channel::name_of(int rank) const {
  const int32_t pid = control_.rank(rank).pid.load(std::memory_order_relaxed);
  const auto root_rank = static_cast<std::size_t>(options_.root_ranks[static_cast<std::size_t>(rank)]);
  return "rank " + std::to_string(options_.job_ranks[root_rank]) +
         (pid ? " (pid " + std::to_string(pid) + ")" : " (not connected)");
}

std::string Channel::names_of(const std::vector<int>& ranks) const {
  std::string names;
  for (const int rank : ranks) names += (names.empty() ? "" : ", ") + name_of(rank);
  return names.empty() ? "every rank" : names;
}

}  // namespace cohort::shm
