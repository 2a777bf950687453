#include "watch.hpp"

#include <chrono>

namespace cohort::nccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{10};  // short beside any deadline, long beside an operation
constexpr std::chrono::seconds kLastWords{1};       // for operations that a rank did before it ended

std::vector<int> pids_of(const std::vector<Peer>& peers) {
  std::vector<int> pids;
  for (const Peer& peer : peers) pids.push_back(peer.pid);
  return pids;
}

}  // namespace

Watch::Watch(std::shared_ptr<const Surroundings> around)
    : around_(std::move(around)), processes_(pids_of(around_->peers)), thread_([this] { run(); }) {}

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
    const std::vector<int> lost = lost_ranks();
    for (const std::weak_ptr<Link>& one : links) {
      const std::shared_ptr<Link> link = one.lock();
      if (!link) continue;
      link->poll();
      if (!lost.empty()) link->lose(lost);
    }
    lock.lock();
  }
}

// Returns the ranks that have ended, once nothing that they did before is on its way any more.
std::vector<int> Watch::lost_ranks() {
  std::vector<int> gone = processes_.gone();
  if (!gone.empty() && !loss_) loss_ = Clock::now();
  if (!loss_ || Clock::now() < *loss_ + kLastWords) gone.clear();
  return gone;
}

}  // namespace cohort::nccl
