#include "communicator.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <cohort/sdk/exchange.hpp>

namespace cohort::sim {

namespace {

std::string in_ms(Nanoseconds duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()) + " ms";
}

/// The messages with, before each one, the time at which it reaches the receiver's link.
class TimedMessages {
 public:
  TimedMessages(sdk::Span<const cohort_message> messages, int rank, Link& link) : arrivals_(messages.size()) {
    const Nanoseconds start = Link::now();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const cohort_message& message = messages[i];
      if (message.peer == rank) {  // stays here and takes no time
        all_.push_back(message);
        continue;
      }
      if (message.is_send) {
        const Nanoseconds left = link.leave(start, message.nbytes);
        all_sent_ = std::max(all_sent_, left);
        arrivals_[i] = (left + link.latency()).count();
      } else {
        received_.push_back(i);
      }
      all_.push_back({&arrivals_[i], sizeof arrivals_[i], message.peer, message.is_send});
      all_.push_back(message);
    }
  }
  sdk::Span<const cohort_message> all() const { return {all_.data(), all_.size()}; }

  /// When everything that was sent has left, and everything that was received has arrived: in order of arrival.
  Nanoseconds end(sdk::Span<const cohort_message> messages, Link& link) {
    std::sort(received_.begin(), received_.end(),
              [this](std::size_t a, std::size_t b) { return arrivals_[a] < arrivals_[b]; });
    Nanoseconds end = all_sent_;
    for (const std::size_t i : received_) {
      end = std::max(end, link.arrive(Nanoseconds(arrivals_[i]), messages[i].nbytes));
    }
    return end;
  }

 private:
  std::vector<int64_t> arrivals_;
  std::vector<cohort_message> all_;
  std::vector<std::size_t> received_;
  Nanoseconds all_sent_{0};
};

}  // namespace

Communicator::Communicator(sdk::OwnedComm over, std::shared_ptr<Link> link, Nanoseconds timeout)
    : over_(std::move(over)), link_(std::move(link)), timeout_(timeout) {}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  sdk::OwnedComm part = over_.split(color, key);
  return part ? std::make_unique<Communicator>(std::move(part), link_, timeout_) : nullptr;
}

void Communicator::abort() {
  {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
  }
  aborted_.notify_all();
  over_.abort();
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
  sdk::check_exchange(messages, rank(), size());
  const Nanoseconds deadline = Link::now() + timeout_;
  sleep_until(Link::now() + link_->begin_exchange());
  if (link_->has_vanished()) {
    sleep_until(deadline);
    throw sdk::Error(COHORT_UNAVAILABLE, "sim: this rank vanished from the network, as its option vanish says");
  }
  TimedMessages timed(messages, rank(), *link_);
  over_.exchange(timed.all(), stream);
  const Nanoseconds end = timed.end(messages, *link_);
  if (end > deadline) {
    throw sdk::Error(COHORT_DEADLINE_EXCEEDED, "sim: the messages of an exchange of rank " + std::to_string(rank()) +
                                                   " take longer than the timeout of " + in_ms(timeout_) +
                                                   " at this bandwidth; raise --timeout or bandwidth");
  }
  sleep_until(end);
}

void Communicator::sleep_until(Nanoseconds time) {
  std::unique_lock lock(mutex_);
  const std::chrono::steady_clock::time_point until(time);
  aborted_.wait_until(lock, until, [this] { return is_aborted_; });
  if (is_aborted_) throw sdk::Error(COHORT_ABORTED, "sim: the communicator was aborted");
}

}  // namespace cohort::sim
