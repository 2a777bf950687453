#include "network.hpp"

#include <algorithm>
#include <utility>

#include "tags.hpp"

namespace cohort::gloo {

Network::Network(std::unique_ptr<Mesh> mesh, int rank, std::vector<int> job_ranks, std::chrono::nanoseconds timeout)
    : rank_(rank),
      job_ranks_(std::move(job_ranks)),
      timeout_(timeout),
      mesh_(std::move(mesh)),
      watch_(std::min<std::chrono::nanoseconds>(timeout, kLookEvery)),
      links_(job_ranks_.size()) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    Link& link = links_[static_cast<std::size_t>(peer)];
    try {
      link.receipt = mesh_->receive(peer, &link.nothing, sizeof link.nothing, kNothingTag);
    } catch (const LinkBroken& broken) {
      link.loss = broken.what();  // it has connected, and has left already
    }
  }
}

void Network::require_alive() const {
  if (has_failed_) throw *failure_;
}

void Network::keep(const sdk::Error& failure) {
  const std::lock_guard lock(failing_);
  if (!has_failed_) failure_ = failure;
  has_failed_ = true;
}

void Network::fail(const sdk::Error& error) {
  keep(error);
  throw error;
}

void Network::use_number(int number) {
  if (number > kMaxNumber) {
    throw sdk::Error(COHORT_RESOURCE_EXHAUSTED,
                     "gloo: " + std::to_string(number) + " communicators were split off, which is one too many");
  }
  next_number_ = number + 1;
}

std::string Network::loss_of(int peer) {
  const std::lock_guard lock(looking_);
  Link& link = links_[static_cast<std::size_t>(peer)];
  if (!link.receipt) return link.loss;
  try {
    link.receipt->stop();
    link.receipt->wait();
  } catch (const LinkBroken& broken) {
    return broken.what();
  }
  return {};
}

void Network::give_up(const std::string& communicator) {
  keep({COHORT_ABORTED, "'" + communicator + "' was aborted"});
  const std::lock_guard lock(using_);
  is_given_up_ = true;
  disconnect_unless_used();
}

Network::Use::Use(Network& network) : network_(network) {
  const std::lock_guard lock(network_.using_);
  network_.require_alive();
  ++network_.users_;
}

Network::Use::~Use() {
  const std::lock_guard lock(network_.using_);
  --network_.users_;
  network_.disconnect_unless_used();
}

void Network::disconnect_unless_used() {
  if (!is_given_up_ || users_ > 0) return;
  links_.clear();
  mesh_->close();
}

}  // namespace cohort::gloo
