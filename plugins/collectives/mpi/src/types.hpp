// Data types and reduce operations in MPI's words; checked arguments; operations in words. Threads: any.
#pragma once

#include <mpi.h>

#include <climits>
#include <numeric>
#include <string>

#include <cohort/api/collective.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/operation_checks.hpp>

namespace cohort::mpi {

constexpr uint64_t kMostElementsOfCall = 1 << 30;

/// One whose elements are as wide; they are only moved.
inline MPI_Datatype moved_type(int32_t dtype) {
  switch (sdk::size_of(dtype)) {
    case 8:
      return MPI_UINT64_T;
    case 4:
      return MPI_UINT32_T;
    case 2:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

/// MPI_DATATYPE_NULL for one that MPI does not calculate with.
inline MPI_Datatype number_type(int32_t dtype) {
  switch (dtype) {
    case COHORT_FLOAT32:
      return MPI_FLOAT;
    case COHORT_FLOAT64:
      return MPI_DOUBLE;
    case COHORT_INT8:
      return MPI_INT8_T;
    case COHORT_INT16:
      return MPI_INT16_T;
    case COHORT_INT32:
      return MPI_INT32_T;
    case COHORT_INT64:
      return MPI_INT64_T;
    case COHORT_UINT8:
    case COHORT_BOOL:
      return MPI_UINT8_T;
    case COHORT_UINT64:
      return MPI_UINT64_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

inline MPI_Op op_of(int32_t reduce) {
  switch (reduce) {
    case COHORT_REDUCE_MIN:
      return MPI_MIN;
    case COHORT_REDUCE_MAX:
      return MPI_MAX;
    case COHORT_REDUCE_PRODUCT:
      return MPI_PROD;
    case COHORT_REDUCE_BIT_OR:
      return MPI_BOR;
    default:
      return MPI_SUM;
  }
}

/// True where MPI's result is the one that cohort/api/collective.h and cohort/sdk/reduce_ops.hpp describe. It knows no
/// 16-bit floating types, and a tree of sums cannot round once; its minimum and maximum lose NaN; in Open MPI 4.1 sums
/// of 8 and 16 bits saturate.
inline bool mpi_can_reduce(int32_t dtype, int32_t reduce) {
  const bool is_extremum = reduce == COHORT_REDUCE_MIN || reduce == COHORT_REDUCE_MAX;
  if (sdk::is_floating(dtype)) return sdk::size_of(dtype) >= 4 && !is_extremum;
  return sdk::size_of(dtype) >= 4 || is_extremum || reduce == COHORT_REDUCE_BIT_OR;
}

/// "all_reduce(sum, float32, 100 elements)".
inline std::string text_of(const char* operation, const cohort_op_args& args, bool reduces = false) {
  return std::string(operation) + "(" + (reduces ? std::string(sdk::name_of_reduce(args.reduce)) + ", " : "") +
         sdk::name_of(args.dtype) + ", " + (args.counts ? "uneven pieces)" : std::to_string(args.count) + " elements)");
}

/// MPI counts with int, in the whole as well where pieces are uneven: the host composes what is larger.
inline void require_countable(const char* operation, const cohort_op_args& args, int size) {
  uint64_t most = args.counts ? 0 : args.count;
  for (int rank = 0; args.counts && rank < size; ++rank) most += args.counts[rank];
  if (most > INT_MAX)
    throw sdk::Error(COHORT_UNIMPLEMENTED, std::string("mpi ") + operation + ": more than 2^31 elements");
}

}  // namespace cohort::mpi
