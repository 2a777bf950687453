// A collective for a thousand ranks that are threads: the last one that comes to an operation does it for all of them.
//
// Its ranks meet in one hall, whose address the first of them leaves in the store. Every operation but `exchange` is
// one of all ranks of a communicator, called by all in one order.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/reduce.hpp>

namespace {

namespace sdk = cohort::sdk;
using Clock = std::chrono::steady_clock;

class Crowd;

/// The arguments of one rank for an operation.
struct Part {
  const cohort_op_args* args = nullptr;
  int32_t color = 0, key = 0;         // of a split
  std::shared_ptr<Crowd> crowd = {};  // that the split puts it into
  int rank = 0;                       // and as whom
};

/// The ranks of a communicator.
class Crowd {
 public:
  explicit Crowd(int size) : parts_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(parts_.size()); }

  /// Blocks until all ranks have come; the last one does the work.
  void together(int rank, Part& part, Clock::time_point deadline,
                const std::function<void(std::vector<Part*>&)>& work) {
    std::unique_lock lock(mutex_);
    require_nobody_left(rank);
    parts_[static_cast<std::size_t>(rank)] = &part;
    if (++come_ == size()) {
      work(parts_);
      come_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    const uint64_t round = round_;
    const bool is_done = changed_.wait_until(lock, deadline, [&] { return round_ != round || left_ >= 0; });
    if (round_ != round) return;
    if (!is_done) {
      left_ = rank;  // what this rank has brought is gone with it
      throw sdk::Error(COHORT_DEADLINE_EXCEEDED, "crowd: not all ranks have come");
    }
    require_nobody_left(rank);
  }

  void leave(int rank) {
    {
      const std::lock_guard lock(mutex_);
      if (left_ < 0) left_ = rank;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part*> parts_;
  int come_ = 0, left_ = -1;
  uint64_t round_ = 0;

  void require_nobody_left(int rank) const {
    if (left_ < 0) return;
    if (left_ == rank) throw sdk::Error(COHORT_ABORTED, "crowd: this rank has left");
    throw sdk::Error(COHORT_UNAVAILABLE, "crowd: rank " + std::to_string(left_) + " has left", {left_});
  }
};

std::size_t bytes_of(const cohort_op_args& args) {
  return args.count * sdk::size_of(args.dtype);
}

void reduce_all(const std::vector<Part*>& parts) {
  const cohort_op_args& args = *parts[0]->args;
  std::vector<const std::byte*> inputs;
  for (const Part* part : parts) inputs.push_back(static_cast<const std::byte*>(part->args->input));
  std::vector<std::byte> result(bytes_of(args));
  sdk::reduce_elements(args.dtype, args.reduce, {inputs.data(), inputs.size()}, result.data(), args.count);
  for (const Part* part : parts) std::memcpy(part->args->output, result.data(), result.size());
}

void gather_all(const std::vector<Part*>& parts) {
  const cohort_op_args& args = *parts[0]->args;
  const std::size_t nbytes = bytes_of(args);
  std::vector<char> all(nbytes * parts.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    std::memcpy(all.data() + rank * nbytes, parts[rank]->args->input, nbytes);
  }
  for (const Part* part : parts) std::memcpy(part->args->output, all.data(), all.size());
}

void broadcast_all(const std::vector<Part*>& parts) {
  const cohort_op_args& args = *parts[0]->args;
  const void* const source = parts[static_cast<std::size_t>(args.root)]->args->input;
  const std::vector<char> bytes(static_cast<const char*>(source), static_cast<const char*>(source) + bytes_of(args));
  for (const Part* part : parts) std::memcpy(part->args->output, bytes.data(), bytes.size());
}

void split_all(const std::vector<Part*>& parts) {
  std::map<int32_t, std::vector<Part*>> colors;
  for (Part* part : parts) {
    if (part->color >= 0) colors[part->color].push_back(part);
  }
  for (auto& [color, members] : colors) {
    std::stable_sort(members.begin(), members.end(), [](const Part* a, const Part* b) { return a->key < b->key; });
    const auto crowd = std::make_shared<Crowd>(static_cast<int>(members.size()));
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      members[rank]->crowd = crowd;
      members[rank]->rank = static_cast<int>(rank);
    }
  }
}

class CrowdComm : public sdk::Communicator<CrowdComm> {
 public:
  CrowdComm(std::shared_ptr<Crowd> crowd, int rank, std::chrono::nanoseconds timeout)
      : crowd_(std::move(crowd)), rank_(rank), timeout_(timeout) {}

  int rank() const { return rank_; }
  int size() const { return crowd_->size(); }
  void abort() { crowd_->leave(rank_); }
  void barrier() {
    Part part;
    together(part, [](const std::vector<Part*>&) {});
  }
  void all_reduce(const cohort_op_args& args) { with(args, reduce_all); }
  void all_gather(const cohort_op_args& args) { with(args, gather_all); }
  void broadcast(const cohort_op_args& args) { with(args, broadcast_all); }
  void exchange(sdk::Span<const cohort_message>, const cohort_stream&) {
    throw sdk::Error(COHORT_UNIMPLEMENTED, "crowd: it has no messages between two ranks");
  }
  std::unique_ptr<CrowdComm> split(int32_t color, int32_t key) {
    Part part{.color = color, .key = key};
    together(part, split_all);
    return part.crowd ? std::make_unique<CrowdComm>(part.crowd, part.rank, timeout_) : nullptr;
  }

 private:
  std::shared_ptr<Crowd> crowd_;
  int rank_;
  std::chrono::nanoseconds timeout_;

  void with(const cohort_op_args& args, void (*work)(const std::vector<Part*>&)) {
    Part part{.args = &args};
    together(part, work);
  }
  void together(Part& part, const std::function<void(std::vector<Part*>&)>& work) {
    crowd_->together(rank_, part, Clock::now() + timeout_, work);
  }
};

/// The meeting point of the ranks of one process, whose address rank 0 gives them.
struct Hall {
  std::shared_ptr<Crowd> crowd;
};

void check(cohort_status status) {
  if (status != COHORT_OK) throw sdk::Error(status, "crowd: the store failed");
}

struct ACrowd : sdk::Collective<ACrowd, CrowdComm> {
  std::unique_ptr<CrowdComm> connect(const cohort_connect_args& args) {
    const cohort_store_vt& store = *args.store->vt;
    auto hall = std::make_unique<Hall>();
    Hall* address = hall.get();
    if (args.rank == 0) {
      hall->crowd = std::make_shared<Crowd>(args.size);
      check(store.set(args.store, "hall", &address, sizeof address));
    } else {
      uint64_t nbytes = 0;
      check(store.get(args.store, "hall", args.timeout_ns, &address, sizeof address, &nbytes));
    }
    auto comm = std::make_unique<CrowdComm>(address->crowd, args.rank, std::chrono::nanoseconds(args.timeout_ns));
    comm->barrier();  // the hall stands until all have been in it
    return comm;
  }
};

constexpr cohort_component kCrowd = sdk::collective<ACrowd>("crowd", "a thousand ranks that are threads");

}  // namespace

COHORT_SDK_PLUGIN("org.example.crowd", "1.0.0", "a test", "Apache-2.0", kCrowd)
