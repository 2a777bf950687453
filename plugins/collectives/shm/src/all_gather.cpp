#include <algorithm>
#include <array>

#include <cohort/sdk/dtype.hpp>

#include "copy.hpp"
#include "one_shot.hpp"
#include "operations.hpp"
#include "pieces.hpp"

namespace cohort::shm {

namespace {

/// Every rank copies the pieces of the others, from their memory where it is shared and worth a second barrier, else
/// from their staging, chunk by chunk.
class AllGather {
 public:
  AllGather(const Group& group, const cohort_op_args& args)
      : channel_(group.channel),
        memory_(group.memory),
        args_(args),
        pieces_(Pieces::of(args, group.channel.size())),
        element_(sdk::size_of(args.dtype)) {}

  void run() {
    const uint64_t own_nbytes = pieces_.count(channel_.rank()) * element_;
    Call call{};
    call.kind = OpKind::kAllGather;
    call.dtype = static_cast<uint8_t>(args_.dtype);
    call.count = pieces_.end(channel_.size() - 1);
    call.pieces = pieces_.hash();
    if (own_nbytes > kOneShotBytes) call.input = memory_.find(args_.input, own_nbytes);
    const bool must_offer = call.input.region == 0;
    if (must_offer) offer(0);
    channel_.meet(call);
    const Sharing sharing = find_shared();
    const uint64_t largest = pieces_.largest() * element_;
    const uint64_t chunk = sharing.is_all ? largest : kHalfBytes;
    for (uint64_t done = 0; done < largest; done += chunk) {
      take(done, chunk);
      const bool is_last = largest - done <= chunk;
      if (must_offer && !is_last) offer(done + chunk);
      // What was offered may change after the next barrier; an input that is shared, as soon as its rank has returned.
      if (!is_last || sharing.is_any) channel_.meet_again();
    }
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  uint64_t nbytes_of(int rank) const { return pieces_.count(rank) * element_; }
  /// Bytes of a rank's piece in the chunk that begins after `done`.
  uint64_t nbytes_of(int rank, uint64_t done, uint64_t chunk) const {
    return std::min(chunk, nbytes_of(rank) - std::min(done, nbytes_of(rank)));
  }

  void offer(uint64_t done) {
    copy_bytes(channel_.control().offered(channel_.rank(), channel_.barrier() + 1),
               static_cast<const std::byte*>(args_.input) + done, nbytes_of(channel_.rank(), done, kHalfBytes));
  }

  struct Sharing {
    bool is_any;
    bool is_all;
  };
  Sharing find_shared() {
    Sharing sharing{false, true};
    for (int rank = 0; rank < channel_.size(); ++rank) {
      inputs_[at(rank)] = memory_.resolve(rank, channel_.call_of(rank).input, nbytes_of(rank));
      sharing.is_any = sharing.is_any || inputs_[at(rank)];
      sharing.is_all = sharing.is_all && (inputs_[at(rank)] || nbytes_of(rank) == 0);
    }
    return sharing;
  }

  /// Each rank begins with another one, so that they do not all read the same memory at once.
  void take(uint64_t done, uint64_t chunk) {
    const auto* own_input = static_cast<const std::byte*>(args_.input);
    for (int i = 0; i < channel_.size(); ++i) {
      const int rank = (channel_.rank() + i) % channel_.size();
      const std::byte* shared = rank == channel_.rank() ? own_input : inputs_[at(rank)];
      const std::byte* from = shared ? shared + done : channel_.control().offered(rank, channel_.barrier());
      std::byte* to = static_cast<std::byte*>(args_.output) + pieces_.begin(rank) * element_ + done;
      copy_bytes(to, from, nbytes_of(rank, done, chunk));
    }
  }

  Channel& channel_;
  const GroupMemory& memory_;
  const cohort_op_args& args_;
  const Pieces pieces_;
  uint64_t element_;
  std::array<const std::byte*, kMaxRanks> inputs_;  // by rank; null where they are not shared
};

}  // namespace

void all_gather(const Group& group, const cohort_op_args& args) {
  AllGather(group, args).run();
}

}  // namespace cohort::shm
