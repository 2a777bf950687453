#include "watch.hpp"

#include <algorithm>
#include <utility>

namespace cohort::gloo {

Watch::Watch(std::chrono::nanoseconds usual) : usual_(usual), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    next_look_ = now + usual_;
    for (Guard* guard : guards_) {
      if (guard->next_ <= now) guard->next_ = guard->on_time_();
      next_look_ = std::min(next_look_, guard->next_);
    }
    changed_.wait_until(lock, next_look_);
  }
}

Watch::Guard::Guard(Watch& watch, Clock::time_point first, std::function<Clock::time_point()> on_time)
    : watch_(watch), next_(first), on_time_(std::move(on_time)) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.guards_.push_back(this);
  if (next_ < watch_.next_look_) watch_.changed_.notify_one();
}

Watch::Guard::~Guard() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.guards_.erase(std::find(watch_.guards_.begin(), watch_.guards_.end(), this));
}

}  // namespace cohort::gloo
