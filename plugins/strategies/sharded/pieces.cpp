#include "pieces.hpp"

#include <numeric>

namespace cohort::sharded {
namespace {

char* at(const sdk::Elements& bucket, uint64_t element) {
  return static_cast<char*>(bucket.data) + element * sdk::size_of(bucket.dtype);
}

/// Returns the arguments of an operation in place over a stretch: this rank's piece is at its place in it.
cohort_op_args pieces_of(const sdk::Comm& comm, const sdk::Elements& bucket, const Stretch& stretch) {
  const auto rank = static_cast<size_t>(comm.rank());
  const uint64_t before = std::accumulate(stretch.pieces.begin(), stretch.pieces.begin() + comm.rank(), uint64_t{0});
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = bucket.dtype;
  args.input = at(bucket, stretch.begin + before);
  args.output = at(bucket, stretch.begin + before);
  args.count = stretch.pieces[rank];
  args.counts = stretch.pieces.data();
  args.stream = bucket.stream;
  return args;
}

}  // namespace

std::vector<Stretch> stretches_of(const cohort_bucket& bucket, const std::vector<int>& owners, int ranks) {
  std::vector<Stretch> stretches;
  for (uint64_t i = 0; i < bucket.num_parts; ++i) {
    const cohort_bucket_part& part = bucket.parts[i];
    const int owner = owners[part.id];
    if (stretches.empty() || owner < stretches.back().last_owner) {
      stretches.emplace_back();
      stretches.back().begin = part.offset;
      stretches.back().pieces.assign(static_cast<size_t>(ranks), 0);
    }
    Stretch& stretch = stretches.back();
    uint64_t& piece = stretch.pieces[static_cast<size_t>(owner)];
    if (piece == 0) ++stretch.num_owners;
    piece += part.numel;
    stretch.numel += part.numel;
    stretch.last_owner = owner;
  }
  return stretches;
}

// One owner alone: other ranks help it to add up, which they do not in a scatter of one piece.
void reduce_to_owners(const sdk::Comm& comm, const sdk::Elements& bucket, const Stretch& stretch) {
  if (stretch.num_owners == 1) {
    return comm.reduce({at(bucket, stretch.begin), stretch.numel, bucket.dtype, bucket.stream}, COHORT_REDUCE_MEAN,
                       stretch.last_owner);
  }
  cohort_op_args args = pieces_of(comm, bucket, stretch);
  args.reduce = COHORT_REDUCE_MEAN;
  args.input = at(bucket, stretch.begin);
  comm.reduce_scatter(args);
}

void gather_from_owners(const sdk::Comm& comm, const sdk::Elements& bucket, const Stretch& stretch) {
  if (stretch.num_owners == 1) {
    return comm.broadcast({at(bucket, stretch.begin), stretch.numel, bucket.dtype, bucket.stream}, stretch.last_owner);
  }
  cohort_op_args args = pieces_of(comm, bucket, stretch);
  args.output = at(bucket, stretch.begin);
  comm.all_gather(args);
}

}  // namespace cohort::sharded
