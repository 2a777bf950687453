#include <algorithm>
#include <array>
#include <cstring>

#include <cohort/sdk/dtype.hpp>

#include "operations.hpp"

namespace cohort::shm {

namespace {

class AllGather {
 public:
  AllGather(Channel& channel, const GroupMemory& memory, const cohort_op_args& args)
      : channel_(channel), memory_(memory), args_(args), nbytes_(args.count * sdk::size_of(args.dtype)) {}

  void run() {
    const Place place = memory_.find(args_.input, nbytes_);
    if (!place.region) copy_in(0);
    channel_.meet({OpKind::kAllGather, args_.dtype, 0, 0, args_.count, place, {0, 0}});
    const auto [any_shared, all_shared] = find_others();
    const uint64_t chunk = all_shared ? nbytes_ : kHalfBytes;
    for (uint64_t begin = 0; begin < nbytes_; begin += chunk) {
      copy_out(begin, std::min(chunk, nbytes_ - begin));
      const uint64_t next = begin + chunk;
      const bool is_last = next >= nbytes_;
      if (!is_last && !place.region) copy_in(next);
      // Staging may be written again after the next barrier; shared memory as soon as this returns.
      if (is_last && !any_shared) break;
      channel_.arrive();
      channel_.wait_for_all();
    }
  }

 private:
  void copy_in(uint64_t begin) {
    const uint64_t chunk = std::min(kHalfBytes, nbytes_ - begin);
    if (chunk == 0) return;
    std::byte* half = channel_.control().half(channel_.rank(), channel_.barrier() + 1);
    std::memcpy(half, static_cast<const std::byte*>(args_.input) + begin, chunk);
  }

  struct Sharing {
    bool any;
    bool all;
  };
  Sharing find_others() {
    Sharing sharing{false, true};
    for (int rank = 0; rank < channel_.size(); ++rank) {
      const Place place = channel_.call_of(rank).input;
      inputs_[static_cast<std::size_t>(rank)] = place.region ? memory_.resolve(rank, place, nbytes_) : nullptr;
      sharing.any = sharing.any || place.region;
      sharing.all = sharing.all && place.region;
    }
    return sharing;
  }

  /// Each rank begins with another one, so that they do not all read the same memory at once.
  void copy_out(uint64_t begin, uint64_t chunk) {
    for (int i = 0; i < channel_.size(); ++i) {
      const int rank = (channel_.rank() + i) % channel_.size();
      const std::byte* shared = inputs_[static_cast<std::size_t>(rank)];
      const std::byte* from = shared ? shared + begin : channel_.control().half(rank, channel_.barrier());
      std::byte* to = static_cast<std::byte*>(args_.output) + static_cast<uint64_t>(rank) * nbytes_ + begin;
      const bool is_own = rank == channel_.rank();
      if (is_own) from = static_cast<const std::byte*>(args_.input) + begin;
      if (to != from) std::memcpy(to, from, chunk);
    }
  }

  Channel& channel_;
  const GroupMemory& memory_;
  const cohort_op_args& args_;
  uint64_t nbytes_;
  std::array<const std::byte*, kMaxRanks> inputs_;  // by rank; filled before they are read
};

}  // namespace

void all_gather(Channel& channel, const GroupMemory& memory, const cohort_op_args& args) {
  AllGather(channel, memory, args).run();
}

}  // namespace cohort::shm
