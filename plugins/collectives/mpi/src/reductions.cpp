// all_reduce, reduce and reduce_scatter: who takes the sum, and MPI's own.
#include <algorithm>
#include <cstring>

#include "operation.hpp"
#include "ordered_sum.hpp"
#include "types.hpp"

namespace cohort::mpi {

namespace {

constexpr int kFewRanks = 16;  // whose messages to each other are faster than MPI's nonblocking trees

template <class T>
void divide(void* values, uint64_t count, int size) {
  const auto divisor = static_cast<T>(size);
  for (uint64_t i = 0; i < count; ++i) static_cast<T*>(values)[i] /= divisor;
}

void finish_mean(const cohort_op_args& args, void* values, uint64_t count, int size) {
  if (args.reduce != COHORT_REDUCE_MEAN) return;
  if (args.dtype == COHORT_FLOAT32) divide<float>(values, count, size);
  if (args.dtype == COHORT_FLOAT64) divide<double>(values, count, size);
}

template <class Start>
void begin_in_pieces(Operation& operation, uint64_t count, Start&& start) {
  for (uint64_t begin = 0; begin < count; begin += kMostElementsOfCall) {
    const auto length = static_cast<int>(std::min(kMostElementsOfCall, count - begin));
    operation.begin([&](MPI_Request* request) { return start(begin, length, request); });
  }
}

}  // namespace

bool Communicator::takes_ordered_sum(const cohort_op_args& args) const {
  if (!mpi_can_reduce(args.dtype, args.reduce)) return true;
  return sums_ == Sums::kOrdered || (sums_ == Sums::kAuto && size() <= kFewRanks);
}

void Communicator::all_reduce(const cohort_op_args& args) {
  sdk::check_reduction(args, size(), "mpi all_reduce");
  if (takes_ordered_sum(args)) {
    OrderedSum(*this, args).all_reduce();
  } else {
    all_reduce_by_mpi(args);
  }
}

void Communicator::reduce(const cohort_op_args& args) {
  sdk::check_reduction(args, size(), "mpi reduce");
  sdk::check_root(args, size(), "mpi reduce");
  if (takes_ordered_sum(args)) {
    OrderedSum(*this, args).reduce();
  } else {
    reduce_by_mpi(args);
  }
}

void Communicator::reduce_scatter(const cohort_op_args& args) {
  sdk::check_reduction(args, size(), "mpi reduce_scatter");
  if (takes_ordered_sum(args)) {
    OrderedSum(*this, args).reduce_scatter();
  } else {
    reduce_scatter_by_mpi(args);
  }
}

void Communicator::all_reduce_by_mpi(const cohort_op_args& args) {
  const uint64_t element = sdk::size_of(args.dtype);
  const auto* const input = static_cast<const std::byte*>(args.input);
  auto* const output = static_cast<std::byte*>(args.output);
  Operation operation(*this, [&] { return text_of("all_reduce", args, true); });
  begin_in_pieces(operation, args.count, [&](uint64_t begin, int count, MPI_Request* request) {
    const uint64_t offset = begin * element;
    return ::MPI_Iallreduce(input == output ? MPI_IN_PLACE : input + offset, output + offset, count,
                            number_type(args.dtype), op_of(args.reduce), comm_, request);
  });
  operation.wait_all();
  finish_mean(args, output, args.count, size());
}

void Communicator::reduce_by_mpi(const cohort_op_args& args) {
  const uint64_t element = sdk::size_of(args.dtype);
  const bool is_root = rank_ == args.root;
  const auto* const input = static_cast<const std::byte*>(args.input);
  auto* const output = static_cast<std::byte*>(args.output);
  Operation operation(*this, [&] { return text_of("reduce", args, true); });
  begin_in_pieces(operation, args.count, [&](uint64_t begin, int count, MPI_Request* request) {
    const uint64_t offset = begin * element;
    const bool is_in_place = is_root && input == output;
    return ::MPI_Ireduce(is_in_place ? MPI_IN_PLACE : input + offset, is_root ? output + offset : nullptr, count,
                         number_type(args.dtype), op_of(args.reduce), args.root, comm_, request);
  });
  operation.wait_all();
  if (is_root) finish_mean(args, output, args.count, size());
}

// MPI's "in place" puts the piece at the front of the whole; here it stays where it is.
void Communicator::reduce_scatter_by_mpi(const cohort_op_args& args) {
  require_countable("reduce_scatter", args, size());
  std::vector<int> counts(members_.size(), static_cast<int>(args.counts ? 0 : args.count));
  for (std::size_t rank = 0; args.counts && rank < counts.size(); ++rank) {
    counts[rank] = static_cast<int>(args.counts[rank]);
  }
  const auto own = static_cast<uint64_t>(counts[static_cast<std::size_t>(rank_)]);
  const uint64_t nbytes = own * sdk::size_of(args.dtype);
  std::byte* const result = scratch_.of(nbytes);
  {
    Operation operation(*this, [&] { return text_of("reduce_scatter", args, true); });
    operation.begin([&](MPI_Request* request) {
      return ::MPI_Ireduce_scatter(args.input, result, counts.data(), number_type(args.dtype), op_of(args.reduce),
                                   comm_, request);
    });
    operation.wait_all();
  }
  finish_mean(args, result, own, size());
  if (nbytes > 0) std::memcpy(args.output, result, nbytes);
}

}  // namespace cohort::mpi
