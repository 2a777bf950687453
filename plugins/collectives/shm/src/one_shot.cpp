#include "one_shot.hpp"

#include <array>

#include <cohort/sdk/dtype.hpp>

#include "copy.hpp"

namespace cohort::shm {

void reduce_in_one_shot(const Group& group, const cohort_op_args& args, const Call& call, const Wanted& wanted) {
  Channel& channel = group.channel;
  const uint64_t element = sdk::size_of(args.dtype);
  const uint64_t offset = wanted.begin * element;
  copy_bytes(channel.control().offered(channel.rank(), channel.barrier() + 1), args.input, call.count * element);
  channel.meet(call);
  if (wanted.count == 0) return;
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < channel.size(); ++rank) {
    const bool is_own = rank == channel.rank();
    const std::byte* whole =
        is_own ? static_cast<const std::byte*>(args.input) : channel.control().offered(rank, channel.barrier());
    sources[static_cast<std::size_t>(rank)] = whole + offset;
  }
  std::byte* const sink = static_cast<std::byte*>(wanted.output);
  group.reduce({args.dtype, args.reduce, sources.data(), channel.size(), &sink, 1, wanted.count});
}

}  // namespace cohort::shm
