// all_reduce and reduce: each rank owns a slice, which it reduces in rank order for all ranks that want the result.
#include <algorithm>
#include <array>

#include <cohort/sdk/dtype.hpp>

#include "copy.hpp"
#include "one_shot.hpp"
#include "operations.hpp"
#include "pieces.hpp"

namespace cohort::shm {

namespace {

constexpr int kEveryRank = -1;

/// Memory that is shared is read and written in place. A rank with other memory puts the slices of the others into its
/// staging, chunk by chunk; their owners write the result back there. (So a cache line goes from core to core only by
/// being read; lines that one rank writes and another reads over and over cost four times as much.) Where all memory is
/// shared there is one chunk and no copy. Between two barriers a rank reduces its slice of one chunk and offers its
/// part of the next.
class SlicedReduction {
 public:
  SlicedReduction(const Group& group, const cohort_op_args& args, int root)
      : channel_(group.channel),
        memory_(group.memory),
        reduce_(group.reduce),
        args_(args),
        root_(root),
        element_(sdk::size_of(args.dtype)) {}

  void run(Call call) {
    const uint64_t nbytes = args_.count * element_;
    call.input = memory_.find(args_.input, nbytes);
    if (wants(own())) call.output = args_.output == args_.input ? call.input : memory_.find(args_.output, nbytes);
    const bool must_offer = call.input.region == 0;
    const uint64_t staged_chunk = kHalfBytes / element_;
    if (must_offer) offer(0, std::min(staged_chunk, args_.count));
    channel_.meet(call);
    const uint64_t chunk = find_shared(nbytes) ? args_.count : staged_chunk;
    for (uint64_t begin = 0; begin < args_.count; begin += chunk) {
      const uint64_t count = std::min(chunk, args_.count - begin);
      reduce_own_slice(begin, count);
      const uint64_t next = begin + count;
      if (must_offer && next < args_.count) offer(next, std::min(chunk, args_.count - next));
      channel_.meet_again();
      take(begin, count);
    }
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  int own() const { return channel_.rank(); }
  bool wants(int rank) const { return root_ == kEveryRank || root_ == rank; }
  const std::byte* input(uint64_t begin) const { return static_cast<const std::byte*>(args_.input) + begin * element_; }
  std::byte* output(uint64_t begin) const { return static_cast<std::byte*>(args_.output) + begin * element_; }

  /// For the next barrier: all but the own slice, which nobody else reads.
  void offer(uint64_t begin, uint64_t count) {
    std::byte* const half = channel_.control().offered(own(), channel_.barrier() + 1);
    const Pieces slices = Pieces::even(channel_.size(), count, element_);
    const uint64_t after = slices.end(own());
    copy_bytes(half, input(begin), slices.begin(own()) * element_);
    copy_bytes(half + after * element_, input(begin + after), (count - after) * element_);
  }

  /// True where all memory is shared.
  bool find_shared(uint64_t nbytes) {
    bool is_all = true;
    for (int rank = 0; rank < channel_.size(); ++rank) {
      const Call& theirs = channel_.call_of(rank);
      inputs_[at(rank)] = memory_.resolve(rank, theirs.input, nbytes);
      outputs_[at(rank)] = memory_.resolve(rank, theirs.output, nbytes);
      is_all = is_all && inputs_[at(rank)] && (outputs_[at(rank)] || !wants(rank));
    }
    return is_all;
  }

  void reduce_own_slice(uint64_t begin, uint64_t count) {
    const Pieces slices = Pieces::even(channel_.size(), count, element_);
    const uint64_t in_chunk = slices.begin(own()) * element_;
    const uint64_t in_whole = begin * element_ + in_chunk;
    std::array<const std::byte*, kMaxRanks> sources;
    std::array<std::byte*, kMaxRanks> sinks;
    int num_sinks = 0;
    for (int rank = 0; rank < channel_.size(); ++rank) {
      const bool is_own = rank == own();
      std::byte* const staged = channel_.control().offered(rank, channel_.barrier()) + in_chunk;
      const std::byte* const source = is_own ? input(0) : inputs_[at(rank)];
      std::byte* const sink = is_own ? output(0) : outputs_[at(rank)];
      sources[at(rank)] = source ? source + in_whole : staged;
      if (wants(rank)) sinks[at(num_sinks++)] = sink ? sink + in_whole : staged;
    }
    reduce_({args_.dtype, args_.reduce, sources.data(), channel_.size(), sinks.data(), num_sinks, slices.count(own())});
  }

  /// What the others had reduced by the last barrier, unless they could write it to the output themselves.
  void take(uint64_t begin, uint64_t count) {
    if (!wants(own()) || outputs_[at(own())]) return;
    const std::byte* const half = channel_.control().offered(own(), channel_.barrier() - 1);
    const Pieces slices = Pieces::even(channel_.size(), count, element_);
    const uint64_t after = slices.end(own());
    copy_bytes(output(begin), half, slices.begin(own()) * element_);
    copy_bytes(output(begin + after), half + after * element_, (count - after) * element_);
  }

  Channel& channel_;
  const GroupMemory& memory_;
  ReduceFunction reduce_;
  const cohort_op_args& args_;
  int root_;
  uint64_t element_;
  // By rank; null where memory is not shared. Filled before they are read, up to the number of ranks.
  std::array<std::byte*, kMaxRanks> inputs_;
  std::array<std::byte*, kMaxRanks> outputs_;
};

void reduce_for(const Group& group, const cohort_op_args& args, OpKind kind, int root) {
  Call call{};
  call.kind = kind;
  call.dtype = static_cast<uint8_t>(args.dtype);
  call.reduce = static_cast<uint8_t>(args.reduce);
  call.root = root;
  call.count = args.count;
  if (args.count * sdk::size_of(args.dtype) > kOneShotBytes) return SlicedReduction(group, args, root).run(call);
  const bool is_wanted = root == kEveryRank || root == group.channel.rank();
  reduce_in_one_shot(group, args, call, {0, is_wanted ? args.count : 0, args.output});
}

}  // namespace

void all_reduce(const Group& group, const cohort_op_args& args) {
  reduce_for(group, args, OpKind::kAllReduce, kEveryRank);
}

void reduce(const Group& group, const cohort_op_args& args) {
  reduce_for(group, args, OpKind::kReduce, args.root);
}

}  // namespace cohort::shm
