#include "batch.hpp"

#include <utility>

#include <cohort/sdk/duration.hpp>

namespace cohort::gloo {

namespace {

using Clock = std::chrono::steady_clock;

// A wait that the watch ends may overlook that its message has just come.
constexpr int kLossesToBelieve = 2;

}  // namespace

Batch::Batch(Communicator& communicator, std::function<std::string()> operation)
    : communicator_(communicator),
      deadline_(Clock::now() + communicator.network_->timeout()),
      operation_(std::move(operation)),
      use_(*communicator.network_),
      running_(communicator, *this),
      guard_(communicator.network_->watch(), [this] { interrupt(); }) {}

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
      fail_broken(peer, broken.what());
    }
  }
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
  return messages_.size() - 1;
}

// Gloo does not end a message of which some has come when its sender is gone. What came whole before is still taken.
void Batch::wait(std::size_t index) {
  Message& message = messages_[index];
  if (!message.transfer) return;
  std::string loss;
  for (int losses = 0; !wait_a_while(message); losses += loss.empty() ? 0 : 1) {
    check_time(message.peer);
    if (losses == kLossesToBelieve) fail_broken(message.peer, loss);
    loss = communicator_.network_->loss_of(communicator_.ranks_[static_cast<std::size_t>(message.peer)]);
  }
}

bool Batch::wait_a_while(Message& message) {
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) return false;
    waited_for_ = &message;
  }
  bool is_done = false;
  try {
    is_done = message.transfer->wait();
  } catch (const LinkBroken& broken) {
    fail_broken(message.peer, broken.what());
  }
  const std::lock_guard lock(mutex_);
  waited_for_ = nullptr;
  if (is_done) message.transfer.reset();
  return is_done;
}

void Batch::wait_all() {
  for (std::size_t index = 0; index < messages_.size(); ++index) wait(index);
}

void Batch::interrupt() {
  const std::lock_guard lock(mutex_);
  if (waited_for_) waited_for_->transfer->stop();
}

void Batch::abort() {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  if (waited_for_) waited_for_->transfer->stop();
}

// Throws if the batch was aborted, or if its deadline has passed.
void Batch::check_time(int peer) {
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) throw sdk::Error(COHORT_ABORTED, operation_() + " was aborted");
  }
  if (Clock::now() < deadline_) return;
  Network& network = *communicator_.network_;
  const int rank = communicator_.ranks_[static_cast<std::size_t>(peer)];
  const std::string what =
      operation_() + " waited " + sdk::in_words(network.timeout()) + " for " + network.name_of(rank);
  network.fail({COHORT_DEADLINE_EXCEEDED, what, {rank}});
}

void Batch::fail_broken(int peer, const std::string& reason) {
  check_time(peer);
  Network& network = *communicator_.network_;
  const int rank = communicator_.ranks_[static_cast<std::size_t>(peer)];
  const std::string what = "the connection to " + network.name_of(rank) + " broke in " + operation_();
  network.fail({COHORT_UNAVAILABLE, what + " (" + reason + ")", {rank}});
}

}  // namespace cohort::gloo
