#include <algorithm>
#include <array>

#include <cohort/sdk/dtype.hpp>

#include "copy.hpp"
#include "one_shot.hpp"
#include "operations.hpp"
#include "pieces.hpp"

namespace cohort::shm {

namespace {

/// Each rank reduces its piece, in rank order, from inputs that are shared, else from what the others offer in their
/// staging: a part of every piece at a time.
class ReduceScatter {
 public:
  ReduceScatter(const Group& group, const cohort_op_args& args, const Pieces& pieces)
      : channel_(group.channel),
        memory_(group.memory),
        reduce_(group.reduce),
        args_(args),
        pieces_(pieces),
        element_(sdk::size_of(args.dtype)),
        staged_part_(kHalfBytes / element_ / static_cast<uint64_t>(group.channel.size())) {}

  void run(Call call) {
    call.input = memory_.find(args_.input, call.count * element_);
    const bool must_offer = call.input.region == 0;
    if (must_offer) offer(0);
    channel_.meet(call);
    const Sharing sharing = find_shared(call.count * element_);
    const uint64_t part = sharing.is_all ? pieces_.largest() : staged_part_;
    for (uint64_t done = 0; done < pieces_.largest(); done += part) {
      reduce_own(done, part);
      const bool is_last = pieces_.largest() - done <= part;
      if (must_offer && !is_last) offer(done + part);
      // What was offered may change after the next barrier; an input that is shared, as soon as its rank has returned.
      if (!is_last || sharing.is_any) channel_.meet_again();
    }
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  const std::byte* input(uint64_t begin) const { return static_cast<const std::byte*>(args_.input) + begin * element_; }
  /// Elements of a rank's piece in the part that begins after `done`.
  uint64_t count_of(int rank, uint64_t done, uint64_t part) const {
    return std::min(part, pieces_.count(rank) - std::min(done, pieces_.count(rank)));
  }

  void offer(uint64_t done) {
    std::byte* half = channel_.control().offered(channel_.rank(), channel_.barrier() + 1);
    for (int rank = 0; rank < channel_.size(); ++rank, half += staged_part_ * element_) {
      if (rank == channel_.rank()) continue;
      copy_bytes(half, input(pieces_.begin(rank) + done), count_of(rank, done, staged_part_) * element_);
    }
  }

  struct Sharing {
    bool is_any;
    bool is_all;
  };
  Sharing find_shared(uint64_t nbytes) {
    Sharing sharing{false, true};
    for (int rank = 0; rank < channel_.size(); ++rank) {
      inputs_[at(rank)] = memory_.resolve(rank, channel_.call_of(rank).input, nbytes);
      sharing.is_any = sharing.is_any || inputs_[at(rank)];
      sharing.is_all = sharing.is_all && inputs_[at(rank)];
    }
    return sharing;
  }

  void reduce_own(uint64_t done, uint64_t part) {
    const int own = channel_.rank();
    const uint64_t count = count_of(own, done, part);
    if (count == 0) return;
    const uint64_t in_whole = (pieces_.begin(own) + done) * element_;
    const uint64_t in_half = static_cast<uint64_t>(own) * staged_part_ * element_;
    std::array<const std::byte*, kMaxRanks> sources;
    for (int rank = 0; rank < channel_.size(); ++rank) {
      const std::byte* const shared = rank == own ? input(0) : inputs_[at(rank)];
      sources[at(rank)] = shared ? shared + in_whole : channel_.control().offered(rank, channel_.barrier()) + in_half;
    }
    std::byte* const sink = static_cast<std::byte*>(args_.output) + done * element_;
    reduce_({args_.dtype, args_.reduce, sources.data(), channel_.size(), &sink, 1, count});
  }

  Channel& channel_;
  const GroupMemory& memory_;
  ReduceFunction reduce_;
  const cohort_op_args& args_;
  const Pieces& pieces_;
  uint64_t element_;
  uint64_t staged_part_;                      // elements of each piece in half a staging area
  std::array<std::byte*, kMaxRanks> inputs_;  // by rank; null where they are not shared
};

}  // namespace

void reduce_scatter(const Group& group, const cohort_op_args& args) {
  const Pieces pieces = Pieces::of(args, group.channel.size());
  const int own = group.channel.rank();
  Call call{};
  call.kind = OpKind::kReduceScatter;
  call.dtype = static_cast<uint8_t>(args.dtype);
  call.reduce = static_cast<uint8_t>(args.reduce);
  call.count = pieces.end(group.channel.size() - 1);
  call.pieces = pieces.hash();
  if (call.count * sdk::size_of(args.dtype) > kOneShotBytes) return ReduceScatter(group, args, pieces).run(call);
  reduce_in_one_shot(group, args, call, {pieces.begin(own), pieces.count(own), args.output});
}

}  // namespace cohort::shm
