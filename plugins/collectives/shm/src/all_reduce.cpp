#include <algorithm>
#include <array>
#include <cstring>

#include <cohort/sdk/dtype.hpp>

#include "operations.hpp"

namespace cohort::shm {

namespace {

/// Up to this size every rank reduces everything itself: one barrier instead of two.
constexpr uint64_t kOneShotBytes = 2 << 10;

void copy_bytes(void* to, const void* from, uint64_t nbytes) {
  if (nbytes != 0 && to != from) std::memcpy(to, from, nbytes);
}

struct Slice {
  uint64_t begin;
  uint64_t count;
};

/// The part of `count` elements that a rank owns; boundaries lie on cache lines.
Slice slice_of(uint64_t count, uint64_t element, int rank, int size) {
  const uint64_t line = std::max<uint64_t>(1, kCacheLine / element);
  const auto ranks = static_cast<uint64_t>(size);
  const uint64_t each = ((count + ranks - 1) / ranks + line - 1) / line * line;
  const uint64_t begin = std::min(count, each * static_cast<uint64_t>(rank));
  return {begin, std::min(each, count - begin)};
}

class AllReduce {
 public:
  AllReduce(Channel& channel, const GroupMemory& memory, ReduceFunction reduce, const cohort_op_args& args)
      : channel_(channel),
        memory_(memory),
        reduce_(reduce),
        args_(args),
        element_(sdk::size_of(args.dtype)),
        nbytes_(args.count * element_) {}

  void run() {
    if (channel_.size() == 1) return copy_bytes(args_.output, args_.input, nbytes_);
    nbytes_ <= kOneShotBytes ? run_in_one_shot() : run_in_slices();
  }

 private:
  Call call(Place input, Place output) const {
    return {OpKind::kAllReduce, args_.dtype, args_.reduce, 0, args_.count, input, output};
  }
  const std::byte* input(uint64_t begin) const { return static_cast<const std::byte*>(args_.input) + begin * element_; }
  std::byte* output(uint64_t begin) const { return static_cast<std::byte*>(args_.output) + begin * element_; }
  std::byte* own_half(uint32_t barrier) const { return channel_.control().half(channel_.rank(), barrier); }

  void run_in_one_shot() {
    copy_bytes(own_half(channel_.barrier() + 1), args_.input, nbytes_);
    channel_.meet(call({0, 0}, {0, 0}));
    for (int rank = 0; rank < channel_.size(); ++rank) {
      sources_[at(rank)] = channel_.control().half(rank, channel_.barrier());
    }
    sinks_[0] = output(0);
    reduce_({args_.dtype, args_.reduce, sources_.data(), channel_.size(), sinks_.data(), 1, args_.count});
  }

  /// Chunk by chunk through staging; where all memory is shared there is one chunk and no copy. Between two barriers a
  /// rank reduces its slice of one chunk and puts the next chunk into the other half.
  void run_in_slices() {
    const Place input_place = memory_.find(args_.input, nbytes_);
    const Place output_place = memory_.find(args_.output, nbytes_);
    const uint64_t staged_chunk = kHalfBytes / element_;
    if (!input_place.region) copy_in(0, std::min(staged_chunk, args_.count));
    channel_.meet(call(input_place, output_place));
    const uint64_t chunk = find_others() ? args_.count : staged_chunk;
    for (uint64_t begin = 0; begin < args_.count; begin += chunk) {
      const uint64_t count = std::min(chunk, args_.count - begin);
      reduce_own_slice(begin, count);
      const uint64_t next = begin + count;
      if (!input_place.region && next < args_.count) copy_in(next, std::min(chunk, args_.count - next));
      const uint32_t reduced = channel_.barrier();
      channel_.arrive();
      channel_.wait_for_all();
      if (!output_place.region) copy_bytes(output(begin), own_half(reduced), count * element_);
    }
  }

  void copy_in(uint64_t begin, uint64_t count) {
    copy_bytes(own_half(channel_.barrier() + 1), input(begin), count * element_);
  }

  /// Finds the shared memory of all ranks; true where there is nothing but that.
  bool find_others() {
    bool is_all_shared = true;
    for (int rank = 0; rank < channel_.size(); ++rank) {
      const Call& theirs = channel_.call_of(rank);
      inputs_[at(rank)] = theirs.input.region ? memory_.resolve(rank, theirs.input, nbytes_) : nullptr;
      outputs_[at(rank)] = theirs.output.region ? memory_.resolve(rank, theirs.output, nbytes_) : nullptr;
      is_all_shared = is_all_shared && inputs_[at(rank)] && outputs_[at(rank)];
    }
    return is_all_shared;
  }

  void reduce_own_slice(uint64_t begin, uint64_t count) {
    const Slice slice = slice_of(count, element_, channel_.rank(), channel_.size());
    const uint64_t in_chunk = slice.begin * element_;
    const uint64_t in_whole = begin * element_ + in_chunk;
    for (int rank = 0; rank < channel_.size(); ++rank) {
      std::byte* half = channel_.control().half(rank, channel_.barrier()) + in_chunk;
      sources_[at(rank)] = inputs_[at(rank)] ? inputs_[at(rank)] + in_whole : half;
      sinks_[at(rank)] = outputs_[at(rank)] ? outputs_[at(rank)] + in_whole : half;
    }
    const int size = channel_.size();
    reduce_({args_.dtype, args_.reduce, sources_.data(), size, sinks_.data(), size, slice.count});
  }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  Channel& channel_;
  const GroupMemory& memory_;
  ReduceFunction reduce_;
  const cohort_op_args& args_;
  uint64_t element_;
  uint64_t nbytes_;
  // By rank; shared memory where there is some, else null. Filled before they are read, up to the number of ranks.
  std::array<std::byte*, kMaxRanks> inputs_;
  std::array<std::byte*, kMaxRanks> outputs_;
  std::array<const std::byte*, kMaxRanks> sources_;
  std::array<std::byte*, kMaxRanks> sinks_;
};

}  // namespace

void all_reduce(Channel& channel, const GroupMemory& memory, ReduceFunction reduce, const cohort_op_args& args) {
  AllReduce(channel, memory, reduce, args).run();
}

}  // namespace cohort::shm
