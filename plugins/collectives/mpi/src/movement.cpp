// broadcast, all_gather and all_to_all, by MPI's nonblocking collectives.
#include <algorithm>
#include <cstring>

#include "operation.hpp"
#include "types.hpp"

namespace cohort::mpi {

namespace {

struct IntCounts {
  std::vector<int> counts, offsets;
};

IntCounts int_counts(const uint64_t* counts, int size) {
  IntCounts result;
  int offset = 0;
  for (int rank = 0; rank < size; ++rank) {
    result.counts.push_back(static_cast<int>(counts[rank]));
    result.offsets.push_back(offset);
    offset += result.counts.back();
  }
  return result;
}

/// Elements before the piece of each rank.
std::vector<uint64_t> begins_of(const uint64_t* counts, uint64_t count, int size) {
  std::vector<uint64_t> begins{0};
  for (int rank = 0; rank < size; ++rank) begins.push_back(begins.back() + (counts ? counts[rank] : count));
  return begins;
}

}  // namespace

void Communicator::broadcast(const cohort_op_args& args) {
  sdk::check_elements(args, size(), "mpi broadcast");
  sdk::check_root(args, size(), "mpi broadcast");
  const uint64_t element = sdk::size_of(args.dtype);
  auto* const output = static_cast<std::byte*>(args.output);
  Operation operation(*this, [&] { return text_of("broadcast", args); });
  if (rank_ == args.root && args.input != args.output && args.count > 0) {
    std::memcpy(output, args.input, args.count * element);
  }
  for (uint64_t begin = 0; begin < args.count; begin += kMostElementsOfCall) {
    const auto count = static_cast<int>(std::min(kMostElementsOfCall, args.count - begin));
    operation.begin([&](MPI_Request* request) {
      return ::MPI_Ibcast(output + begin * element, count, moved_type(args.dtype), args.root, comm_, request);
    });
  }
  operation.wait_all();
}

void Communicator::all_gather(const cohort_op_args& args) {
  sdk::check_elements(args, size(), "mpi all_gather");
  require_countable("all_gather", args, size());
  const MPI_Datatype type = moved_type(args.dtype);
  const uint64_t begin = begins_of(args.counts, args.count, size())[static_cast<std::size_t>(rank_)];
  const auto* const place = static_cast<const std::byte*>(args.output) + begin * sdk::size_of(args.dtype);
  const void* const input = args.input == place ? MPI_IN_PLACE : args.input;
  Operation operation(*this, [&] { return text_of("all_gather", args); });
  IntCounts parts;
  if (args.counts) {
    parts = int_counts(args.counts, size());
    operation.begin([&](MPI_Request* request) {
      return ::MPI_Iallgatherv(input, parts.counts[static_cast<std::size_t>(rank_)], type, args.output,
                               parts.counts.data(), parts.offsets.data(), type, comm_, request);
    });
  } else {
    const auto count = static_cast<int>(args.count);
    operation.begin([&](MPI_Request* request) {
      return ::MPI_Iallgather(input, count, type, args.output, count, type, comm_, request);
    });
  }
  operation.wait_all();
}

// With counts, which may be small on one rank and beyond MPI's on another, by messages: that is what MPI makes of it
// too.
void Communicator::all_to_all(const cohort_op_args& args) {
  sdk::check_elements(args, size(), "mpi all_to_all");
  const uint64_t element = sdk::size_of(args.dtype);
  if (!args.counts && args.count <= INT_MAX) {
    const auto count = static_cast<int>(args.count);
    const MPI_Datatype type = moved_type(args.dtype);
    Operation operation(*this, [&] { return text_of("all_to_all", args); });
    operation.begin([&](MPI_Request* request) {
      return ::MPI_Ialltoall(args.input, count, type, args.output, count, type, comm_, request);
    });
    return operation.wait_all();
  }
  const auto given = begins_of(args.counts, args.count, size());
  const auto got = begins_of(args.recv_counts ? args.recv_counts : args.counts, args.count, size());
  auto* const input = static_cast<std::byte*>(const_cast<void*>(args.input));
  auto* const output = static_cast<std::byte*>(args.output);
  std::vector<cohort_message> messages;
  for (int peer = 0; peer < size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    messages.push_back({input + given[p] * element, (given[p + 1] - given[p]) * element, peer, 1});
    messages.push_back({output + got[p] * element, (got[p + 1] - got[p]) * element, peer, 0});
  }
  exchange({messages.data(), messages.size()}, args.stream);
}

}  // namespace cohort::mpi
