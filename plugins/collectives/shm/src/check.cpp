#include <string>

#include <cohort/sdk/dtype.hpp>

#include "call_text.hpp"
#include "operations.hpp"

namespace cohort::shm {

namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 56;

[[noreturn]] void refuse(const std::string& problem) {
  throw sdk::invalid_argument("shm " + problem);
}

void check_type(const cohort_op_args& args, OpKind kind) {
  if (sdk::size_of(args.dtype) == 0) {
    throw sdk::Error(COHORT_UNIMPLEMENTED,
                     "shm " + std::string(name_of(kind)) + " does not know data type " + std::to_string(args.dtype));
  }
  if (args.stream.device_type != COHORT_DEVICE_CPU && args.stream.device_type != 0) {
    refuse(std::string(name_of(kind)) + " works on CPU memory only; choose another collective for this device");
  }
}

void check_memory(bool is_given, uint64_t count, OpKind kind) {
  if (count != 0 && !is_given) refuse(std::string(name_of(kind)) + " was given no memory");
  if (count > kMostElements) refuse(std::string(name_of(kind)) + " was given an impossible number of elements");
}

void check_reduction(const cohort_op_args& args, OpKind kind) {
  check_type(args, kind);
  if (sdk::can_reduce(args.dtype, args.reduce)) return;
  throw sdk::Error(sdk::refusal_of(args.dtype, args.reduce), "shm " + std::string(name_of(kind)) + " cannot take the " +
                                                                 name_of_reduce(args.reduce) + " of " +
                                                                 sdk::name_of(args.dtype) + " elements");
}

void check_root(const cohort_op_args& args, int size, OpKind kind) {
  if (args.root >= 0 && args.root < size) return;
  refuse(std::string(name_of(kind)) + " has root " + std::to_string(args.root) + " but there are " +
         std::to_string(size) + " ranks");
}

struct PieceCounts {
  uint64_t all;
  uint64_t own;
};

PieceCounts check_counts(const cohort_op_args& args, int rank, int size, OpKind kind) {
  PieceCounts counts{0, 0};
  for (int r = 0; r < size; ++r) {
    const uint64_t count = args.counts ? args.counts[r] : args.count;
    check_memory(true, count, kind);  // one by one, so that the sum cannot overflow
    check_memory(true, counts.all += count, kind);
    if (r == rank) counts.own = count;
  }
  return counts;
}

}  // namespace

void check_all_reduce(const cohort_op_args& args) {
  check_reduction(args, OpKind::kAllReduce);
  check_memory(args.input && args.output, args.count, OpKind::kAllReduce);
}

void check_reduce(const cohort_op_args& args, int rank, int size) {
  check_reduction(args, OpKind::kReduce);
  check_root(args, size, OpKind::kReduce);
  check_memory(args.input && (args.output || rank != args.root), args.count, OpKind::kReduce);
}

void check_broadcast(const cohort_op_args& args, int rank, int size) {
  check_type(args, OpKind::kBroadcast);
  check_root(args, size, OpKind::kBroadcast);
  check_memory(args.output && (args.input || rank != args.root), args.count, OpKind::kBroadcast);
}

void check_all_gather(const cohort_op_args& args, int rank, int size) {
  check_type(args, OpKind::kAllGather);
  const PieceCounts counts = check_counts(args, rank, size, OpKind::kAllGather);
  check_memory(args.output, counts.all, OpKind::kAllGather);
  check_memory(args.input, counts.own, OpKind::kAllGather);
}

void check_reduce_scatter(const cohort_op_args& args, int rank, int size) {
  check_reduction(args, OpKind::kReduceScatter);
  const PieceCounts counts = check_counts(args, rank, size, OpKind::kReduceScatter);
  check_memory(args.input, counts.all, OpKind::kReduceScatter);
  check_memory(args.output, counts.own, OpKind::kReduceScatter);
}

}  // namespace cohort::shm
