#include <cohort/host/lane.hpp>

#include <pthread.h>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {
namespace {

constexpr size_t kKeptEnds = 64;                        // a ticket that is older is waited for by the oldest of them
constexpr std::chrono::microseconds kBetweenPolls{20};  // of a device
constexpr size_t kLongestThreadName = 15;               // in Linux

template <class Call>
std::exception_ptr failure_of(const Call& call) {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

Lane::Lane(std::string name, std::chrono::nanoseconds stall_timeout, HostObject* host, RankDevices devices)
    : name_(std::move(name)), stall_timeout_(stall_timeout), host_(host), streams_(devices) {
  const std::lock_guard lock(mutex_);  // the thread is counted before it rests
  thread_ = std::thread([this] { loop(); });
  ::pthread_setname_np(thread_.native_handle(), ("lane " + name_).substr(0, kLongestThreadName).c_str());
  if (host_) host_->recorder().thread_begins(thread_.get_id());
}

FlightRecorder* Lane::recorder() const {
  return host_ ? &host_->recorder() : nullptr;
}

Lane::~Lane() {
  stop();
}

void Lane::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  task_added_.notify_all();
  const std::thread::id thread = thread_.get_id();
  thread_.join();
  follow_lane();  // what its tasks use is freed next
  if (host_) host_->recorder().thread_ends(thread);
}

Lane::Ticket Lane::submit(Task task) {
  if (host_) host_->check_process();
  uint64_t ticket = 0;
  LaneStreams::Events behind = streams_.here();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(task), std::move(behind)});
    ticket = ++submitted_;
    note_rest();
  }
  task_added_.notify_one();
  return ticket;
}

Lane::Ticket Lane::submit_in_turn(Task task) {
  const Ticket ticket = submit(std::move(task));
  std::unique_lock lock(mutex_);
  await_return(lock, ticket);
  return ticket;
}

void Lane::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  check_ticket(ticket);
  wait(lock, ticket);
}

void Lane::wait(std::unique_lock<std::mutex>& lock, Ticket ticket) {
  ++waits_;
  await_return(lock, ticket);
  if (failure_) std::rethrow_exception(failure_);
  streams_.follow(end_of(ticket));
}

void Lane::check_ticket(Ticket ticket) const {
  if (ticket <= submitted_) return;
  throw UserError("lane '" + name_ + "' has no ticket " + std::to_string(ticket) + ", as " +
                  std::to_string(submitted_) + " tasks were submitted to it; wait for a ticket of this lane");
}

// Throws PeerFailed after the stall timeout. The caller asks for the lane's failure.
void Lane::await_return(std::unique_lock<std::mutex>& lock, Ticket ticket) {
  Waiter waiter{ticket, {}};
  if (completed_ < ticket && !failure_) waiter.rest.emplace(recorder());
  waiters_.push_back(&waiter);
  bool has_moved = true;
  while (completed_ < ticket && !failure_ && has_moved) {
    const uint64_t before = completed_;
    has_moved = task_done_.wait_for(lock, stall_timeout_, [&] { return completed_ > before || failure_; });
  }
  std::erase(waiters_, &waiter);
  if (!has_moved) throw PeerFailed("lane '" + name_ + "' made no progress although its operations have deadlines");
}

LaneStreams::Events Lane::end_of(Ticket ticket) const {
  const auto end = ends_.lower_bound(ticket);
  return end == ends_.end() ? LaneStreams::Events{} : end->second;
}

void Lane::follow_lane() noexcept {
  static_cast<void>(failure_of([this] { streams_.follow_lane(); }));  // a device that fails orders nothing any more
}

// A thread in here is not at rest: it goes on when the time is over, whatever other ranks do.
bool Lane::wait_for(Ticket ticket, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  check_ticket(ticket);
  task_done_.wait_for(lock, timeout, [&] { return completed_ >= ticket || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  if (completed_ < ticket) return false;
  const LaneStreams::Events end = end_of(ticket);
  lock.unlock();
  while (!LaneStreams::are_done(end)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kBetweenPolls);
  }
  streams_.follow(end);
  return true;
}

void Lane::drain() {
  std::unique_lock lock(mutex_);
  wait(lock, submitted_);
}

uint64_t Lane::waits() {
  const std::lock_guard lock(mutex_);
  return waits_;
}

bool Lane::is_idle() {
  const std::lock_guard lock(mutex_);
  return completed_ == submitted_;
}

void Lane::settle() {
  std::unique_lock lock(mutex_);
  task_done_.wait_for(lock, stall_timeout_, [&] { return completed_ == submitted_; });
  lock.unlock();
  follow_lane();
}

void Lane::run(Task task) {
  if (is_current_thread()) {
    task();
  } else {
    wait(submit(std::move(task)));
  }
}

void Lane::run_here(const Task& task) {
  if (is_current_thread()) return task();
  const LaneStreams::Events behind = streams_.here();
  std::unique_lock lock(mutex_);
  while (completed_ != submitted_ || failure_) wait(lock, submitted_);
  ++submitted_;
  guest_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  lock.unlock();
  LaneStreams::Events end;
  const std::exception_ptr failure = failure_of([&] { run_as_guest(task, behind, end); });
  lock.lock();
  guest_.store({}, std::memory_order_relaxed);
  finish(failure, std::move(end));
  note_rest();
  if (!queue_.empty()) task_added_.notify_one();
  if (failure) std::rethrow_exception(failure);
}

// The caller's streams are current again and behind the lane's, also if the task throws.
void Lane::run_as_guest(const Task& task, const LaneStreams::Events& behind, LaneStreams::Events& end) {
  const auto before = streams_.enter();
  const std::exception_ptr failure = failure_of([&] {
    streams_.follow(behind);
    task();
  });
  const std::exception_ptr end_failure = failure_of([&] { end = streams_.here(); });
  const std::exception_ptr leave_failure = failure_of([&] {
    streams_.leave(before);
    streams_.follow(end);
  });
  for (const auto& cause : {failure, end_failure, leave_failure}) {
    if (cause) std::rethrow_exception(cause);
  }
}

void Lane::finish(std::exception_ptr failure, LaneStreams::Events end) {
  if (failure) failure_ = std::move(failure);
  ++completed_;
  if (!end.empty()) ends_.emplace(completed_, std::move(end));
  if (ends_.size() > kKeptEnds) ends_.erase(ends_.begin());
  for (Waiter* const waiter : waiters_) {
    if (completed_ >= waiter->ticket || failure_) waiter->rest.reset();
  }
  task_done_.notify_all();
}

// Called whenever what the thread could run has changed. Rests end here and not in the thread that rested: that one may
// be scheduled much later, and meanwhile the rank would seem to wait.
void Lane::note_rest() {
  if (!is_waiting_ || has_task()) {
    rest_.reset();
  } else if (!rest_) {
    rest_.emplace(recorder(), thread_.get_id());
  }
}

void Lane::loop() {
  const std::exception_ptr device_failure = failure_of([this] { streams_.enter(); });
  std::unique_lock lock(mutex_);
  failure_ = device_failure;
  while (true) {
    is_waiting_ = true;
    note_rest();
    task_added_.wait(lock, [&] { return stopping_ || has_task(); });
    is_waiting_ = false;
    note_rest();
    if (stopping_) return;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    const bool dropped = failure_ != nullptr;
    lock.unlock();
    LaneStreams::Events end;
    const std::exception_ptr failure = dropped ? nullptr : failure_of([&] {
      streams_.follow(next.behind);
      next.task();
      end = streams_.here();
    });
    lock.lock();
    finish(failure, std::move(end));
  }
}

}  // namespace cohort::host
