// The collective `peer` moves memory of the fake device, and no other, between ranks that are threads of one process.
//
// An operation meets the other ranks on the host and enqueues the rest: events and copies between devices, then a
// kernel. Nothing waits for a device. What it leaves out (reduce, reduce_scatter, all_to_all) is the host's.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/reduce.hpp>
#include <cohort/sdk/store_round.hpp>

#include "fakedrv.h"

namespace {

namespace sdk = cohort::sdk;

void check(int failed) {
  if (failed) throw sdk::Error(COHORT_INTERNAL, fakedrv_error());
}

/// A place in a stream's order, which other ranks may wait for.
class Event {
 public:
  explicit Event(fakedrv_stream* stream) {
    check(fakedrv_create_event(&event_));
    check(fakedrv_record(event_, stream));
  }
  ~Event() { fakedrv_destroy_event(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void before(fakedrv_stream* stream) const { check(fakedrv_stream_waits(stream, event_)); }

 private:
  fakedrv_event* event_ = nullptr;
};

class Group;

/// What a rank wants of a split, and a group that the part may take.
struct Wish {
  int32_t color = 0, key = 0;
  std::shared_ptr<Group> group;
};

/// The arguments that a rank shows to the others. They are copies, because others may read them after it has failed.
struct Shown {
  const void* input = nullptr;
  std::vector<cohort_message> messages{};
  std::shared_ptr<Event> ready;
  Wish wish{};
};

class Group {
 public:
  explicit Group(size_t size) : shown_(size) {}

  /// Returns what all ranks show, once all are here.
  std::vector<Shown> meet(int rank, Shown shown, std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    shown_[static_cast<size_t>(rank)] = std::move(shown);
    if (++arrived_ == shown_.size()) {
      met_ = shown_;
      arrived_ = 0;
      ++meetings_;
      changed_.notify_all();
      return met_;
    }
    const uint64_t before = meetings_;
    const bool came = changed_.wait_for(lock, timeout, [&] { return is_aborted_ || meetings_ != before; });
    if (meetings_ != before) return met_;
    throw sdk::Error(came ? COHORT_ABORTED : COHORT_DEADLINE_EXCEEDED, "peer: a rank did not come");
  }
  void resize(size_t size) {
    const std::lock_guard lock(mutex_);
    shown_.resize(size);
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Shown> shown_, met_;
  size_t arrived_ = 0;
  uint64_t meetings_ = 0;
  bool is_aborted_ = false;
};

fakedrv_stream* stream_of(const cohort_stream& stream) {
  if (stream.device_type != COHORT_DEVICE_EXT || !stream.native) {
    throw sdk::failed_precondition("peer: this is no memory of a fake device");
  }
  return static_cast<fakedrv_stream*>(stream.native);
}

/// Memory of the device that lives until the stream has come to the end of the operation.
class Scratch {
 public:
  Scratch(fakedrv_stream* stream, uint64_t nbytes) : stream_(stream) { check(fakedrv_alloc(stream, nbytes, &memory_)); }
  ~Scratch() { fakedrv_free(memory_, stream_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(memory_) + offset; }

 private:
  fakedrv_stream* stream_;
  void* memory_ = nullptr;
};

/// Reduces the ranks' inputs, which lie side by side in memory of the device.
struct Reduction {
  const std::byte* inputs;
  void* output;
  size_t ranks;
  uint64_t count, nbytes;
  int32_t dtype, reduce;

  static int run(void* arg) {
    const auto& [inputs, output, ranks, count, nbytes, dtype, reduce] = *static_cast<const Reduction*>(arg);
    std::vector<const std::byte*> sources;
    for (size_t r = 0; r < ranks; ++r) {
      sources.push_back(static_cast<const std::byte*>(fakedrv_contents(inputs + r * nbytes)));
    }
    sdk::reduce_elements(dtype, reduce, {sources.data(), sources.size()},
                         static_cast<std::byte*>(fakedrv_contents(output)), count);
    return 0;
  }
  static void drop(void* arg) { delete static_cast<Reduction*>(arg); }
};

class PeerComm : public sdk::Communicator<PeerComm> {
 public:
  PeerComm(std::shared_ptr<Group> group, int rank, int size, int device, std::chrono::nanoseconds timeout)
      : group_(std::move(group)), rank_(rank), size_(size), device_(device), timeout_(timeout) {
    check(fakedrv_create_stream(device, &stream_));
  }
  ~PeerComm() { fakedrv_destroy_stream(stream_); }
  PeerComm(const PeerComm&) = delete;
  PeerComm& operator=(const PeerComm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void abort() { group_->abort(); }
  // The part takes the group of its first rank, which has room for all.
  std::unique_ptr<PeerComm> split(int32_t color, int32_t key) {
    Shown own;
    own.wish = {color, key, std::make_shared<Group>(0)};
    const auto all = group_->meet(rank_, std::move(own), timeout_);
    if (color < 0) return nullptr;
    std::vector<std::pair<int32_t, int>> members;
    for (int rank = 0; rank < size_; ++rank) {
      const Wish& wish = all[static_cast<size_t>(rank)].wish;
      if (wish.color == color) members.emplace_back(wish.key, rank);
    }
    std::ranges::sort(members);
    const auto place = std::ranges::find(members, std::pair(key, rank_)) - members.begin();
    std::shared_ptr<Group> group = all[static_cast<size_t>(members[0].second)].wish.group;
    group->resize(members.size());
    return std::make_unique<PeerComm>(std::move(group), static_cast<int>(place), static_cast<int>(members.size()),
                                      device_, timeout_);
  }
  void* alloc(uint64_t nbytes) {
    void* memory = nullptr;
    check(fakedrv_alloc(stream_, nbytes, &memory) || fakedrv_fill(stream_, memory, 0, nbytes) || fakedrv_wait(stream_));
    return memory;
  }
  // Nothing orders this free behind work of the device, so the driver counts a race unless the host has waited. On a
  // GPU, the work would access memory that is no longer there.
  void release(void* memory) { fakedrv_free(memory, stream_); }
  void barrier() { group_->meet(rank_, {}, timeout_); }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& on) {
    fakedrv_stream* const stream = stream_of(on);
    const auto all = begin(stream, {nullptr, {messages.begin(), messages.end()}, nullptr});
    std::vector<size_t> next(static_cast<size_t>(size_));  // of each sender's messages to this rank
    for (const cohort_message& message : messages) {
      if (message.is_send) continue;
      const auto peer = static_cast<size_t>(message.peer);
      const std::vector<cohort_message>& theirs = all[peer].messages;
      size_t& index = next[peer];
      while (index < theirs.size() && !(theirs[index].is_send && theirs[index].peer == rank_)) ++index;
      if (index == theirs.size() || theirs[index].nbytes != message.nbytes) {
        throw sdk::failed_precondition("peer: ranks exchange other messages than each other's");
      }
      check(fakedrv_copy(stream, message.data, theirs[index++].data, message.nbytes));
    }
    end(stream);
  }

  void all_reduce(const cohort_op_args& args) {
    fakedrv_stream* const stream = stream_of(args.stream);
    const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
    const auto all = begin(stream, {args.input, {}, nullptr});
    const Scratch inputs(stream, nbytes * all.size());
    for (size_t r = 0; r < all.size(); ++r) check(fakedrv_copy(stream, inputs.at(r * nbytes), all[r].input, nbytes));
    end(stream);
    const fakedrv_access accesses[]{{inputs.at(0), nbytes * all.size(), 0, 0}, {args.output, nbytes, 1, 0}};
    auto* const reduction =
        new Reduction{inputs.at(0), args.output, all.size(), args.count, nbytes, args.dtype, args.reduce};
    check(fakedrv_launch(stream, "all_reduce", accesses, 2, Reduction::run, reduction, Reduction::drop));
  }

  void broadcast(const cohort_op_args& args) {
    fakedrv_stream* const stream = stream_of(args.stream);
    const auto all = begin(stream, {args.input, {}, nullptr});
    const void* const input = all[static_cast<size_t>(args.root)].input;
    if (input != args.output) check(fakedrv_copy(stream, args.output, input, args.count * sdk::size_of(args.dtype)));
    end(stream);
  }

  void all_gather(const cohort_op_args& args) {
    fakedrv_stream* const stream = stream_of(args.stream);
    const auto all = begin(stream, {args.input, {}, nullptr});
    auto* place = static_cast<std::byte*>(args.output);
    for (size_t r = 0; r < all.size(); ++r) {
      const uint64_t nbytes = (args.counts ? args.counts[r] : args.count) * sdk::size_of(args.dtype);
      if (place != all[r].input) check(fakedrv_copy(stream, place, all[r].input, nbytes));
      place += nbytes;
    }
    end(stream);
  }

 private:
  std::shared_ptr<Group> group_;
  int rank_, size_, device_;
  std::chrono::nanoseconds timeout_;
  fakedrv_stream* stream_ = nullptr;  // of memory that alloc gives

  /// From now on the stream may read what the others show.
  std::vector<Shown> begin(fakedrv_stream* stream, Shown shown) { return meet(stream, std::move(shown)); }
  /// From now on the stream may write what it has shown.
  void end(fakedrv_stream* stream) { meet(stream, {}); }

  std::vector<Shown> meet(fakedrv_stream* stream, Shown shown) {
    shown.ready = std::make_shared<Event>(stream);
    const auto all = group_->meet(rank_, std::move(shown), timeout_);
    for (const Shown& other : all) other.ready->before(stream);
    return all;
  }
};

struct Peer : sdk::Collective<Peer, PeerComm> {
  // All ranks show where they have a group, and take that of rank 0.
  std::unique_ptr<PeerComm> connect(const cohort_connect_args& args) {
    auto own = std::make_shared<Group>(static_cast<size_t>(args.size));
    const std::string address = std::to_string(reinterpret_cast<uintptr_t>(&own));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(args.timeout_ns);
    const auto addresses = sdk::store_round(args, "group", address, deadline);
    const auto* const first = reinterpret_cast<const std::shared_ptr<Group>*>(std::stoull(addresses[0]));  // NOLINT
    auto comm = std::make_unique<PeerComm>(*first, args.rank, args.size, args.device_index,
                                           std::chrono::nanoseconds(args.timeout_ns));
    comm->barrier();  // then nobody needs rank 0's variable any more
    return comm;
  }
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_EXT) {
    return sdk::no("it moves memory of the fake device only", "choose --collective=shm");
  }
  if (query.use() == COHORT_USE_UNNAMED) return sdk::no("its ranks are threads of one process", "name it");
  if (query.use() == COHORT_USE_NODES) return sdk::no("its ranks are threads of one process", "use one node");
  return sdk::yes_to_known(query);
}

constexpr cohort_component kPeer =
    sdk::collective<Peer>("peer", "memory of the fake device, between threads").supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.test.peer", "1.0.0", "cohort", "Apache-2.0", kPeer)
