#include "watch.hpp"

#include <algorithm>
#include <utility>

namespace cohort::gloo {

Watch::Watch(std::chrono::nanoseconds interval) : interval_(interval), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, interval_, [this] { return stopping_; })) {
    for (Guard* guard : guards_) guard->call_();
  }
}

Watch::Guard::Guard(Watch& watch, std::function<void()> call) : watch_(watch), call_(std::move(call)) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.guards_.push_back(this);
}

Watch::Guard::~Guard() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.guards_.erase(std::find(watch_.guards_.begin(), watch_.guards_.end(), this));
}

}  // namespace cohort::gloo
