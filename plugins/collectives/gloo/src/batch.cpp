#include "batch.hpp"

#include <algorithm>
#include <utility>

namespace cohort::gloo {

namespace {

using Clock = Watch::Clock;

// A wait that the watch ends may overlook that its message has just come.
constexpr int kLossesToBelieve = 2;

}  // namespace

Batch::Batch(Communicator& communicator, std::function<std::string()> operation)
    : communicator_(communicator),
      deadline_(Clock::now() + communicator.network_->timeout()),
      operation_(std::move(operation)),
      use_(*communicator.network_),
      running_(communicator, *this),
      guard_(communicator.network_->watch(), std::min(Clock::now() + Network::kLookEvery, deadline_),
             [this] { return on_time(); }) {}

Batch::~Batch() = default;

std::size_t Batch::send(int peer, const void* data, uint64_t nbytes, int32_t tag) {
  return post(peer, nbytes, [&](Mesh& mesh, int to) { return mesh.send(to, data, nbytes, tag); });
}

std::size_t Batch::receive(int peer, void* data, uint64_t nbytes, int32_t tag) {
  return post(peer, nbytes, [&](Mesh& mesh, int from) { return mesh.receive(from, data, nbytes, tag); });
}

template <class Post>
std::size_t Batch::post(int peer, uint64_t nbytes, Post&& post_it) {
  Message message{peer, std::nullopt};
  if (nbytes > 0) {
    try {
      message.transfer = post_it(communicator_.network_->mesh(), communicator_.ranks_[static_cast<std::size_t>(peer)]);
    } catch (const LinkBroken& broken) {
      fail(peer, broken.what());
    }
  }
  const std::lock_guard lock(mutex_);
  if (message.transfer && stopped_ != Stop::kNone) message.transfer->stop();
  messages_.push_back(std::move(message));
  return messages_.size() - 1;
}

// Gloo does not end a message of which some has come when its sender is gone. What came whole before is still taken.
void Batch::wait(std::size_t index) {
  Message& message = messages_[index];
  if (!message.transfer) return;
  const int rank = communicator_.ranks_[static_cast<std::size_t>(message.peer)];
  std::string loss;
  for (int losses = 0; !wait_a_while(message); losses += loss.empty() ? 0 : 1) {
    if (stopped() != Stop::kNone || losses == kLossesToBelieve) fail(message.peer, loss);
    loss = communicator_.network_->look_around(scene(), rank);
  }
}

bool Batch::wait_a_while(Message& message) {
  {
    const std::lock_guard lock(mutex_);
    waited_for_ = &message;
  }
  bool is_done = false;
  try {
    is_done = message.transfer->wait();
  } catch (const LinkBroken& broken) {
    fail(message.peer, broken.what());
  }
  const std::lock_guard lock(mutex_);
  waited_for_ = nullptr;
  if (is_done) message.transfer.reset();
  return is_done;
}

Clock::time_point Batch::on_time() {
  const auto now = Clock::now();
  if (now >= deadline_) {
    stop(Stop::kDeadline);
    return Watch::kNever;
  }
  const std::lock_guard lock(mutex_);
  if (waited_for_) waited_for_->transfer->stop();
  return std::min(now + Network::kLookEvery, deadline_);
}

void Batch::wait_all() {
  for (std::size_t index = 0; index < messages_.size(); ++index) wait(index);
}

void Batch::stop(Stop reason) {
  const std::lock_guard lock(mutex_);
  if (stopped_ == Stop::kNone) stopped_ = reason;
  for (Message& message : messages_) {
    if (message.transfer) message.transfer->stop();
  }
}

Batch::Stop Batch::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void Batch::fail(int peer, const std::string& broken) {
  const Stop why = stopped();
  if (why == Stop::kAbort) throw sdk::Error(COHORT_ABORTED, operation_() + " was aborted");
  const int rank = communicator_.ranks_[static_cast<std::size_t>(peer)];
  if (why == Stop::kDeadline) communicator_.network_->fail_late(scene(), rank);
  communicator_.network_->fail_broken(scene(), rank, broken);
}

}  // namespace cohort::gloo
