#include <algorithm>

#include <cohort/sdk/dtype.hpp>

#include "copy.hpp"
#include "one_shot.hpp"
#include "operations.hpp"

namespace cohort::shm {

namespace {

/// The root's memory is shared: every rank copies from it, then lets the root go on.
void copy_from_root(const Group& group, const cohort_op_args& args, const std::byte* shared, uint64_t nbytes) {
  if (group.channel.rank() != args.root) copy_bytes(args.output, shared, nbytes);
  group.channel.meet_again();
}

void offer(Channel& channel, const cohort_op_args& args, uint64_t begin, uint64_t nbytes) {
  copy_bytes(channel.control().offered(args.root, channel.barrier() + 1),
             static_cast<const std::byte*>(args.input) + begin, std::min(kHalfBytes, nbytes - begin));
}

/// Through the root's staging: it offers one chunk while the others copy the one before.
void copy_through_staging(Channel& channel, const cohort_op_args& args, uint64_t nbytes) {
  const bool is_root = channel.rank() == args.root;
  for (uint64_t begin = 0; begin < nbytes; begin += kHalfBytes) {
    const uint64_t chunk = std::min(kHalfBytes, nbytes - begin);
    const std::byte* const half = channel.control().offered(args.root, channel.barrier());
    if (!is_root) copy_bytes(static_cast<std::byte*>(args.output) + begin, half, chunk);
    if (begin + chunk == nbytes) break;
    if (is_root) offer(channel, args, begin + chunk, nbytes);
    channel.meet_again();
  }
}

}  // namespace

void broadcast(const Group& group, const cohort_op_args& args) {
  Channel& channel = group.channel;
  const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
  const bool is_root = channel.rank() == args.root;
  Call call{};
  call.kind = OpKind::kBroadcast;
  call.dtype = static_cast<uint8_t>(args.dtype);
  call.root = args.root;
  call.count = args.count;
  if (is_root && nbytes > kOneShotBytes) call.input = group.memory.find(args.input, nbytes);
  if (is_root && call.input.region == 0) offer(channel, args, 0, nbytes);
  channel.meet(call);
  if (is_root) copy_bytes(args.output, args.input, nbytes);
  const std::byte* const shared = group.memory.resolve(args.root, channel.call_of(args.root).input, nbytes);
  if (shared) {
    copy_from_root(group, args, shared, nbytes);
  } else {
    copy_through_staging(channel, args, nbytes);
  }
}

}  // namespace cohort::shm
