#include "communicator.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/exchange.hpp>

#include "agree.hpp"
#include "copy.hpp"
#include "memory_left.hpp"

namespace cohort::shm {

namespace {

Call plain_call(OpKind kind, uint64_t count = 0) {
  Call call{};
  call.kind = kind;
  call.count = count;
  return call;
}

struct Seat {
  int32_t color;
  int32_t key;
};

struct Offer {
  Outcome outcome;
  SegmentAddress address;
};

std::vector<Outcome> outcomes_of(const std::vector<Offer>& offers) {
  std::vector<Outcome> outcomes;
  for (const Offer& offer : offers) outcomes.push_back(offer.outcome);
  return outcomes;
}

/// Ranks with this color, in the order of the new communicator.
std::vector<int> members_of(const std::vector<Seat>& seats, int32_t color) {
  std::vector<int> members;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    if (seats[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return seats[static_cast<std::size_t>(a)].key < seats[static_cast<std::size_t>(b)].key;
  });
  return members;
}

cpu_set_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return set;
}

/// Cores that one rank or another may run on: launchers often bind each rank to one.
int number_of_cores(const std::vector<cpu_set_t>& cores) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& set : cores) CPU_OR(&all, &all, &set);
  return CPU_COUNT(&all);
}

std::vector<int32_t> pids_of(const Channel& channel) {
  std::vector<int32_t> pids;
  for (int rank = 0; rank < channel.size(); ++rank) {
    pids.push_back(channel.control().rank(rank).pid.load(std::memory_order_relaxed));
  }
  return pids;
}

}  // namespace

Communicator::Communicator(Segment control, ChannelOptions options, ReduceFunction function)
    : channel_(std::make_unique<Channel>(std::move(control), std::move(options), nullptr)),
      arena_(std::make_shared<Arena>(channel_->rank())),
      reduce_(function),
      is_root_(true) {
  channel_->run(OpKind::kConnect, [&] {
    const auto cores = gather(*channel_, plain_call(OpKind::kConnect), usable_cores());
    channel_->set_may_spin(number_of_cores(cores) >= size());
    processes_ = std::make_shared<const Processes>(pids_of(*channel_));
    channel_->set_processes(processes_);
  });
}

Communicator::Communicator(std::unique_ptr<Channel> channel, const Communicator& whole)
    : channel_(std::move(channel)),
      arena_(whole.arena_),
      processes_(whole.processes_),
      reduce_(whole.reduce_),
      is_root_(false) {}

/// The first rank of each part makes its control segment; all others open theirs; all ranks hear whether that worked.
std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  std::unique_ptr<Communicator> part;
  channel_->run(OpKind::kSplit, [&] {
    const Call call = plain_call(OpKind::kSplit);
    const auto seats = gather(*channel_, call, Seat{color, key});
    const auto members = color < 0 ? std::vector<int>{} : members_of(seats, color);
    const bool is_first = !members.empty() && members.front() == rank();
    Segment control;
    Offer offer{};
    offer.outcome = outcome_of([&] {
      if (!is_first) return;
      control = Segment::create(ControlLayout::nbytes(static_cast<int>(members.size())), Pages::kOnTouch);
      offer.address = control.address();
    });
    const auto offers = gather(*channel_, call, offer);
    require_success(outcomes_of(offers));
    ChannelOptions options = channel_->options();
    options.rank = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
    options.size = static_cast<int>(members.size());
    const Outcome opened = outcome_of([&] {
      if (members.empty()) return;
      if (!is_first) {
        control = Segment::open(offers[static_cast<std::size_t>(members.front())].address,
                                ControlLayout::nbytes(options.size), Pages::kOnTouch);
      }
      ControlLayout(control.data(), options.size).make_words(options.rank);
    });
    require_success(gather(*channel_, call, opened));
    if (members.empty()) return;
    control.close_descriptor();
    options.root_ranks.clear();
    for (const int member : members) {
      options.root_ranks.push_back(channel_->options().root_ranks[static_cast<std::size_t>(member)]);
    }
    auto channel = std::make_unique<Channel>(std::move(control), std::move(options), processes_);
    part.reset(new Communicator(std::move(channel), *this));
  });
  return part;
}

void* Communicator::alloc(uint64_t nbytes) {
  if (!is_root_) throw sdk::invalid_argument("shm alloc needs the root communicator, not one made by split");
  if (nbytes == 0) throw sdk::invalid_argument("shm alloc was asked for 0 bytes");
  void* memory = nullptr;
  channel_->run(OpKind::kAlloc, [&] {
    const Call call = plain_call(OpKind::kAlloc, nbytes);
    require_success(gather(*channel_, call, outcome_of([&] { require_memory(nbytes, size()); })));
    std::vector<Segment> segments(static_cast<std::size_t>(size()));
    Segment& own = segments[static_cast<std::size_t>(rank())];
    Offer offer{};
    offer.outcome = outcome_of([&] {
      own = Segment::create(nbytes, Pages::kReserved);
      offer.address = own.address();
    });
    const auto offers = gather(*channel_, call, offer);
    require_success(outcomes_of(offers));
    const Outcome opened = outcome_of([&] {
      for (std::size_t other = 0; other < offers.size(); ++other) {
        if (!segments[other]) segments[other] = Segment::open(offers[other].address, nbytes, Pages::kReserved);
      }
    });
    require_success(gather(*channel_, call, opened));
    own.close_descriptor();
    memory = arena_->add(std::move(segments));
  });
  return memory;
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream&) {
  sdk::check_exchange(messages, rank(), size());
  channel_->run(OpKind::kExchange, [&] { shm::exchange(group(), messages); });
}

template <class Operation>
void Communicator::run(OpKind kind, const cohort_op_args& args, const Operation& operation) {
  channel_->run(kind, [&] {
    if (size() > 1) return operation(group(), args);
    copy_bytes(args.output, args.input, (args.counts ? args.counts[0] : args.count) * sdk::size_of(args.dtype));
  });
}

void Communicator::all_reduce(const cohort_op_args& args) {
  check_all_reduce(args, size());
  run(OpKind::kAllReduce, args, shm::all_reduce);
}

void Communicator::reduce(const cohort_op_args& args) {
  check_reduce(args, rank(), size());
  run(OpKind::kReduce, args, shm::reduce);
}

void Communicator::broadcast(const cohort_op_args& args) {
  check_broadcast(args, rank(), size());
  run(OpKind::kBroadcast, args, shm::broadcast);
}

void Communicator::all_gather(const cohort_op_args& args) {
  check_all_gather(args, rank(), size());
  run(OpKind::kAllGather, args, shm::all_gather);
}

void Communicator::reduce_scatter(const cohort_op_args& args) {
  check_reduce_scatter(args, rank(), size());
  run(OpKind::kReduceScatter, args, shm::reduce_scatter);
}

void Communicator::barrier() {
  channel_->run(OpKind::kBarrier, [&] { channel_->meet(plain_call(OpKind::kBarrier)); });
}

}  // namespace cohort::shm
