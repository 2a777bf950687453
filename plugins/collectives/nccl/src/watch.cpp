#include "watch.hpp"

#include <chrono>
#include <vector>

namespace cohort::nccl {
namespace {

constexpr std::chrono::milliseconds kInterval{10};  // short beside any deadline, long beside an operation

}  // namespace

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watch::add(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  links_.push_back(link);
}

void Watch::run() {
  const OnDevice on(around_->cuda, around_->device, OnDevice::Unless::kGoOn);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kInterval, [this] { return is_over_; })) {
    std::erase_if(links_, [](const std::weak_ptr<Link>& link) { return link.expired(); });
    const std::vector<std::weak_ptr<Link>> links = links_;
    lock.unlock();
    for (const std::weak_ptr<Link>& one : links) {
      if (const std::shared_ptr<Link> link = one.lock()) link->poll();
    }
    lock.lock();
  }
}

}  // namespace cohort::nccl
