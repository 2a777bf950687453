#include "communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <cohort/sdk/exchange.hpp>

#include "batch.hpp"

namespace cohort::gloo {

namespace {

/// What a rank says about its part of a split.
struct Wish {
  int32_t color;
  int32_t key;
  int32_t number;
};

enum Kind : uint64_t { kSplit = 1, kExchange = 2 };

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

template <class Value>
void Communicator::share(std::vector<Value>& values, int32_t mark, const char* what) {
  Batch batch(*this, [this, what] { return std::string(what) + " on '" + name_ + "'"; });
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    batch.send(peer, &values[static_cast<std::size_t>(rank_)], sizeof(Value), mark);
    batch.receive(peer, &values[static_cast<std::size_t>(peer)], sizeof(Value), mark);
  }
  batch.wait_all();
}

Communicator::Communicator(std::shared_ptr<Network> network, const std::string& name)
    : network_(std::move(network)),
      ranks_(all_ranks(network_->size())),
      rank_(network_->rank()),
      number_(0),
      name_(name.substr(name.rfind('/') + 1)) {}

Communicator::Communicator(const Communicator& whole, std::vector<int> ranks, int rank, int number)
    : network_(whole.network_),
      ranks_(std::move(ranks)),
      rank_(rank),
      number_(number),
      name_(whole.name_.substr(0, whole.name_.find(" part ")) + " part " + std::to_string(number)) {}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  std::vector<Wish> wishes(ranks_.size());
  wishes[static_cast<std::size_t>(rank_)] = {color, key, network_->next_number()};
  share(wishes, tag({kSplit}), "split");
  int number = 0;
  for (const Wish& wish : wishes) number = std::max(number, wish.number);
  network_->use_number(number);
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int peer = 0; peer < size(); ++peer) {
    if (wishes[static_cast<std::size_t>(peer)].color == color) members.push_back(peer);
  }
  const auto key_of = [&](int peer) { return wishes[static_cast<std::size_t>(peer)].key; };
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  const auto rank = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  for (int& member : members) member = ranks_[static_cast<std::size_t>(member)];
  return std::unique_ptr<Communicator>(new Communicator(*this, std::move(members), rank, number));
}

void Communicator::abort() {
  {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    if (running_) running_->abort();
  }
  network_->give_up(name_);
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream&) {
  sdk::check_exchange(messages, rank_, size());
  sdk::copy_own(messages, rank_);
  Batch batch(*this, [&] { return "exchange of " + std::to_string(messages.size()) + " messages on '" + name_ + "'"; });
  for (const bool sends : {true, false}) {
    for (const cohort_message& message : messages) {
      if (message.peer == rank_ || (message.is_send != 0) != sends) continue;
      const int32_t mark = tag({kExchange, message.nbytes});
      if (sends) {
        batch.send(message.peer, message.data, message.nbytes, mark);
      } else {
        batch.receive(message.peer, message.data, message.nbytes, mark);
      }
    }
  }
  batch.wait_all();
}

Communicator::Running::Running(Communicator& communicator, Batch& batch) : communicator_(communicator) {
  const std::lock_guard lock(communicator_.mutex_);
  if (communicator_.is_aborted_) throw sdk::Error(COHORT_ABORTED, "'" + communicator_.name_ + "' was aborted");
  communicator_.running_ = &batch;
}

Communicator::Running::~Running() {
  const std::lock_guard lock(communicator_.mutex_);
  communicator_.running_ = nullptr;
}

std::byte* Communicator::Scratch::of(uint64_t nbytes) {
  if (nbytes > nbytes_) {
    memory_.reset();
    memory_.reset(new std::byte[nbytes]);
    nbytes_ = nbytes;
  }
  return memory_.get();
}

}  // namespace cohort::gloo
