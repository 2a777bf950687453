#include <algorithm>
#include <cstring>

#include <cohort/sdk/dtype.hpp>

#include "operations.hpp"

namespace cohort::shm {

namespace {

/// The root's memory is shared: every rank copies from it, then lets the root go on.
void copy_from_root(Channel& channel, const GroupMemory& memory, const cohort_op_args& args, uint64_t nbytes) {
  const Place place = channel.call_of(args.root).input;
  if (channel.rank() != args.root) std::memcpy(args.output, memory.resolve(args.root, place, nbytes), nbytes);
  channel.arrive();
  channel.wait_for_all();
}

/// Through the root's staging halves: it fills one while the others read the other.
void copy_through_staging(Channel& channel, const cohort_op_args& args, uint64_t nbytes) {
  const auto* input = static_cast<const std::byte*>(args.input);
  auto* output = static_cast<std::byte*>(args.output);
  const bool is_root = channel.rank() == args.root;
  for (uint64_t begin = 0; begin < nbytes; begin += kHalfBytes) {
    const uint64_t chunk = std::min(kHalfBytes, nbytes - begin);
    const uint64_t next = begin + chunk;
    const std::byte* half = channel.control().half(args.root, channel.barrier());
    if (!is_root) std::memcpy(output + begin, half, chunk);
    if (next == nbytes) break;
    if (is_root) {
      std::memcpy(channel.control().half(args.root, channel.barrier() + 1), input + next,
                  std::min(kHalfBytes, nbytes - next));
    }
    channel.arrive();
    channel.wait_for_all();
  }
}

}  // namespace

void broadcast(Channel& channel, const GroupMemory& memory, const cohort_op_args& args) {
  const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
  const bool is_root = channel.rank() == args.root;
  const Place place = is_root ? memory.find(args.input, nbytes) : Place{0, 0};
  if (is_root && !place.region && nbytes != 0) {
    std::memcpy(channel.control().half(args.root, channel.barrier() + 1), args.input, std::min(kHalfBytes, nbytes));
  }
  channel.meet({OpKind::kBroadcast, args.dtype, 0, args.root, args.count, place, {0, 0}});
  if (is_root && nbytes != 0 && args.output != args.input) std::memmove(args.output, args.input, nbytes);
  if (channel.call_of(args.root).input.region) {
    copy_from_root(channel, memory, args, nbytes);
  } else {
    copy_through_staging(channel, args, nbytes);
  }
}

}  // namespace cohort::shm
