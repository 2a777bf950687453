#include <cohort/host/lane.hpp>

#include <cohort/host/error.hpp>

namespace cohort::host {

Lane::Lane(std::string name, std::chrono::nanoseconds stall_timeout)
    : name_(std::move(name)), stall_timeout_(stall_timeout), thread_([this] { loop(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_added_.notify_all();
  thread_.join();
}

Lane::Ticket Lane::submit(Work work) {
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ticket = ++submitted_;
  }
  work_added_.notify_one();
  return ticket;
}

void Lane::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  while (completed_ < ticket && !failure_) {
    const uint64_t before = completed_;
    const bool moved = work_done_.wait_for(lock, stall_timeout_, [&] { return completed_ > before || failure_; });
    if (!moved) throw PeerFailed("lane '" + name_ + "' made no progress although its operations have deadlines");
  }
  if (failure_) std::rethrow_exception(failure_);
}

void Lane::drain() {
  uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = submitted_;
  }
  wait(last);
}

bool Lane::is_idle() {
  const std::lock_guard lock(mutex_);
  return completed_ == submitted_;
}

void Lane::settle() {
  std::unique_lock lock(mutex_);
  work_done_.wait_for(lock, stall_timeout_, [&] { return completed_ == submitted_; });
}

void Lane::run(Work work) {
  if (is_current_thread()) {
    work();
  } else {
    wait(submit(std::move(work)));
  }
}

void Lane::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_added_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    const bool dropped = failure_ != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (!dropped) work();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    ++completed_;
    work_done_.notify_all();
  }
}

}  // namespace cohort::host
