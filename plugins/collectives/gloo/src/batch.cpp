#include "batch.hpp"

#include <utility>

namespace cohort::gloo {

Batch::Batch(Communicator& communicator, std::function<std::string()> operation)
    : communicator_(communicator),
      operation_(std::move(operation)),
      use_(*communicator.network_),
      running_(communicator, *this),
      guard_(communicator.network_->watch(), Watch::Clock::now() + communicator.network_->timeout(),
             [this] { stop(Stop::kDeadline); }) {}

Batch::~Batch() = default;

std::size_t Batch::send(int peer, const void* data, uint64_t nbytes, int32_t tag) {
  return post(peer, nbytes, [&](Mesh& mesh, int to) { return mesh.send(to, data, nbytes, tag); });
}

std::size_t Batch::receive(int peer, void* data, uint64_t nbytes, int32_t tag) {
  return post(peer, nbytes, [&](Mesh& mesh, int from) { return mesh.receive(from, data, nbytes, tag); });
}

template <class Post>
std::size_t Batch::post(int peer, uint64_t nbytes, Post&& post_it) {
  if (peer < 0 || peer >= communicator_.size()) {
    throw sdk::invalid_argument("gloo: rank " + std::to_string(peer) + " of " + std::to_string(communicator_.size()) +
                                " ranks is asked for a message");
  }
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

void Batch::wait(std::size_t index) {
  Message& message = messages_[index];
  if (!message.transfer) return;
  bool is_done = false;
  try {
    is_done = message.transfer->wait();
  } catch (const LinkBroken& broken) {
    fail(message.peer, broken.what());
  }
  if (!is_done) fail(message.peer, {});
  const std::lock_guard lock(mutex_);
  message.transfer.reset();
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

void Batch::fail(int peer, const std::string& broken) {
  Stop stopped = Stop::kNone;
  {
    const std::lock_guard lock(mutex_);
    stopped = stopped_;
  }
  if (stopped == Stop::kAbort) {
    throw sdk::Error(COHORT_ABORTED, operation_() + " was aborted");
  }
  const Scene scene{operation_(), communicator_.ranks_};
  const int rank = communicator_.ranks_[static_cast<std::size_t>(peer)];
  if (stopped == Stop::kDeadline) communicator_.network_->fail_late(scene, rank);
  communicator_.network_->fail_broken(scene, rank, broken);
}

}  // namespace cohort::gloo
