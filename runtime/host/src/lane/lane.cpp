#include <cohort/host/lane.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {
namespace {

std::exception_ptr failure_of(const Lane::Task& task) {
  try {
    task();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

Lane::Lane(std::string name, std::chrono::nanoseconds stall_timeout, HostObject* host)
    : name_(std::move(name)), stall_timeout_(stall_timeout), host_(host) {
  const std::lock_guard lock(mutex_);  // the thread is counted before it rests
  thread_ = std::thread([this] { loop(); });
  if (host_) host_->recorder().thread_begins(thread_.get_id());
}

FlightRecorder* Lane::recorder() const {
  return host_ ? &host_->recorder() : nullptr;
}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  task_added_.notify_all();
  const std::thread::id thread = thread_.get_id();
  thread_.join();
  if (host_) host_->recorder().thread_ends(thread);
}

Lane::Ticket Lane::submit(Task task) {
  if (host_) host_->check_process();
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    ticket = ++submitted_;
    note_rest();
  }
  task_added_.notify_one();
  return ticket;
}

void Lane::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  wait(lock, ticket);
}

void Lane::wait(std::unique_lock<std::mutex>& lock, Ticket ticket) {
  ++waits_;
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
  if (failure_) std::rethrow_exception(failure_);
}

// A thread in here is not at rest: it goes on when the time is over, whatever other ranks do.
bool Lane::wait_for(Ticket ticket, std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  task_done_.wait_for(lock, timeout, [&] { return completed_ >= ticket || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  return completed_ >= ticket;
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
  std::unique_lock lock(mutex_);
  while (completed_ != submitted_ || failure_) wait(lock, submitted_);
  ++submitted_;
  guest_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  lock.unlock();
  const std::exception_ptr failure = failure_of(task);
  lock.lock();
  guest_.store({}, std::memory_order_relaxed);
  finish(failure);
  note_rest();
  if (!queue_.empty()) task_added_.notify_one();
  if (failure) std::rethrow_exception(failure);
}

void Lane::finish(std::exception_ptr failure) {
  if (failure) failure_ = std::move(failure);
  ++completed_;
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
  std::unique_lock lock(mutex_);
  while (true) {
    is_waiting_ = true;
    note_rest();
    task_added_.wait(lock, [&] { return stopping_ || has_task(); });
    is_waiting_ = false;
    note_rest();
    if (stopping_) return;
    const Task task = std::move(queue_.front());
    queue_.pop_front();
    const bool dropped = failure_ != nullptr;
    lock.unlock();
    const std::exception_ptr failure = dropped ? nullptr : failure_of(task);
    lock.lock();
    finish(failure);
  }
}

}  // namespace cohort::host
