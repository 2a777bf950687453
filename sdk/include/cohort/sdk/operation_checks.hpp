// Checks of an operation's arguments that every collective makes before it sends anything.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/api/collective.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

inline constexpr uint64_t kMostElements = uint64_t{1} << 56;  // whose bytes can still be counted

/// Throws UNIMPLEMENTED for a data type unknown to these headers, and INVALID_ARGUMENT if a rank's bytes are too many
/// to count. The message begins with `who` ("gloo all_reduce").
inline void check_elements(const cohort_op_args& args, int size, const char* who) {
  if (size_of(args.dtype) == 0) {
    throw Error(COHORT_UNIMPLEMENTED, std::string(who) + ": unknown data type " + std::to_string(args.dtype));
  }
  uint64_t whole = args.counts ? 0 : args.count;
  for (int rank = 0; args.counts && rank < size && whole <= kMostElements; ++rank) {
    whole = args.counts[rank] > kMostElements ? args.counts[rank] : whole + args.counts[rank];
  }
  if (whole > kMostElements) throw invalid_argument(std::string(who) + ": an impossible number of elements");
}

/// Calls check_elements, for an operation on a piece for each rank. Throws INVALID_ARGUMENT if the bytes of all pieces
/// are too many to count.
inline void check_pieces(const cohort_op_args& args, int size, const char* who) {
  check_elements(args, size, who);
  if (args.counts || args.count <= kMostElements / static_cast<uint64_t>(size)) return;
  throw invalid_argument(std::string(who) + ": an impossible number of elements");
}

/// Calls check_elements. Throws UNIMPLEMENTED for a reduce operation unknown to these headers, and INVALID_ARGUMENT for
/// one that the data type does not have.
inline void check_reduction(const cohort_op_args& args, int size, const char* who) {
  check_elements(args, size, who);
  if (can_reduce(args.dtype, args.reduce)) return;
  const cohort_status refusal = refusal_of(args.dtype, args.reduce);
  if (refusal == COHORT_UNIMPLEMENTED) {
    throw Error(refusal, std::string(who) + ": unknown reduce operation " + std::to_string(args.reduce));
  }
  throw Error(refusal, std::string(who) + ": the " + name_of_reduce(args.reduce) + " of " + name_of(args.dtype) +
                           " elements is not possible");
}

/// Throws INVALID_ARGUMENT unless args.root is one of the ranks.
inline void check_root(const cohort_op_args& args, int size, const char* who) {
  if (args.root >= 0 && args.root < size) return;
  throw invalid_argument(std::string(who) + ": root " + std::to_string(args.root) + " of " + std::to_string(size) +
                         " ranks");
}

}  // namespace v1
}  // namespace cohort::sdk
