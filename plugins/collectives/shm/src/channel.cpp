#include "channel.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "call_text.hpp"

namespace cohort::shm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpins = 100;  // a few microseconds: a peer on the same core cannot run meanwhile
constexpr std::chrono::milliseconds kYieldTime{1};
constexpr std::chrono::milliseconds kLongestSleep{100};

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::nanoseconds timeout) {
  const timespec relative{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t current_word(uint64_t number, OpKind kind) {
  return number << 8 | static_cast<uint64_t>(kind);
}

}  // namespace

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
                     std::string("this communicator is unusable since an earlier error: ") + broken_->what());
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

void Channel::arrive() {
  ++barrier_;
  self().arrived.store(barrier_, std::memory_order_seq_cst);
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank) notify(rank);
  }
}

void Channel::wait_for_all() {
  // Barrier numbers wrap around; a rank is at most one ahead.
  const auto is_missing = [this](int rank) {
    return static_cast<int32_t>(control_.rank(rank).arrived.load(std::memory_order_seq_cst) - barrier_) < 0;
  };
  int first_missing = 0;
  const auto is_done = [&] {
    while (first_missing < options_.size && !is_missing(first_missing)) ++first_missing;
    return first_missing == options_.size;
  };
  wait(std::cref(is_done), std::cref(is_missing));
}

void Channel::meet(const Call& call) {
  self().calls[(barrier_ + 1) & 1u] = call;
  arrive();
  wait_for_all();
  compare_calls();
}

void Channel::compare_calls() const {
  const auto is_same = [](const Call& a, const Call& b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.reduce == b.reduce && a.root == b.root && a.count == b.count;
  };
  for (int rank = 1; rank < options_.size; ++rank) {
    if (is_same(call_of(rank), call_of(0))) continue;
    throw AgreedError(COHORT_FAILED_PRECONDITION, "ranks disagree on operation #" + std::to_string(operation_) +
                                                      ": rank 0 called " + describe(call_of(0)) + ", rank " +
                                                      std::to_string(rank) + " called " + describe(call_of(rank)));
  }
}

void Channel::notify(int rank) {
  RankBlock& other = control_.rank(rank);
  // seq_cst on both sides: either the sleeper sees the changed word, or this sees the sleeper.
  if (other.sleeping.load(std::memory_order_seq_cst) == 0) return;
  other.doorbell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(other.doorbell);
}

void Channel::wait(const std::function<bool()>& is_done, const std::function<bool(int)>& is_missing) {
  if (is_done()) return;
  for (int i = 0; options_.may_spin && i < kSpins; ++i) {
    pause_core();
    if (is_done()) return;
  }
  const auto start = Clock::now();
  while (Clock::now() - start < kYieldTime) {
    ::sched_yield();
    if (is_done()) return;
  }
  wait_asleep(is_done, is_missing, start);
}

void Channel::wait_asleep(const std::function<bool()>& is_done, const std::function<bool(int)>& is_missing,
                          Clock::time_point start) {
  const auto deadline = start + options_.timeout;
  while (true) {
    const uint32_t bell = self().doorbell.load(std::memory_order_seq_cst);
    self().sleeping.store(1, std::memory_order_seq_cst);
    const bool done = is_done();
    if (!done) {
      check_others(is_missing);
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
      if (left.count() > 0) futex_wait(self().doorbell, bell, std::min<std::chrono::nanoseconds>(left, kLongestSleep));
    }
    self().sleeping.store(0, std::memory_order_seq_cst);
    if (done || is_done()) return;
    if (Clock::now() < deadline) continue;
    check_others(is_missing);
    throw sdk::Error(COHORT_DEADLINE_EXCEEDED, names_of_missing(is_missing) + " did not reach " + operation_name() +
                                                   " within " + describe(options_.timeout));
  }
}

void Channel::check_others(const std::function<bool(int)>& is_missing) const {
  if (is_aborted_.load(std::memory_order_seq_cst)) {
    throw sdk::Error(COHORT_ABORTED, operation_name() + " was aborted on rank " + std::to_string(options_.rank));
  }
  // The cause first: a process that ended, then a wrong call, then those that gave up because of it. Each is looked at
  // again after the finding, as a rank may do its part and then leave.
  for (int rank = 0; rank < options_.size; ++rank) {
    if (is_missing(rank) && is_gone(rank) && is_missing(rank)) {
      throw sdk::Error(COHORT_UNAVAILABLE,
                       name_of(rank) + " is gone: its process ended before it finished " + operation_name());
    }
  }
  for (int rank = 0; rank < options_.size; ++rank) {
    const uint64_t theirs = control_.rank(rank).current.load(std::memory_order_acquire);
    const bool differs = theirs >> 8 == operation_ && theirs != current_word(operation_, kind_);
    if (differs && is_missing(rank)) {
      throw sdk::Error(COHORT_FAILED_PRECONDITION, "ranks disagree on operation #" + std::to_string(operation_) +
                                                       ": rank " + std::to_string(options_.rank) + " called " +
                                                       shm::name_of(kind_) + ", rank " + std::to_string(rank) +
                                                       " called " + shm::name_of(static_cast<OpKind>(theirs & 0xff)));
    }
  }
  for (int rank = 0; rank < options_.size; ++rank) {
    const RankState state = control_.rank(rank).state.load(std::memory_order_acquire);
    if (state <= RankState::kJoined || !is_missing(rank)) continue;
    const char* how = state == RankState::kAborted  ? " aborted this communicator"
                      : state == RankState::kFailed ? " gave this communicator up after an error"
                                                    : " closed this communicator";
    throw sdk::Error(COHORT_UNAVAILABLE, name_of(rank) + how + " before it finished " + operation_name());
  }
}

bool Channel::is_gone(int rank) const {
  return processes_ && processes_->is_gone(options_.root_ranks[static_cast<std::size_t>(rank)]);
}

std::string Channel::name_of(int rank) const {
  const int32_t pid = control_.rank(rank).pid.load(std::memory_order_relaxed);
  return "rank " + std::to_string(rank) + (pid ? " (pid " + std::to_string(pid) + ")" : " (not connected)");
}

std::string Channel::names_of_missing(const std::function<bool(int)>& is_missing) const {
  std::string names;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (is_missing(rank)) names += (names.empty() ? "" : ", ") + name_of(rank);
  }
  return names.empty() ? "every rank" : names;
}

}  // namespace cohort::shm
