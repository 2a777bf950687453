// Checks of an operation's arguments that every collective makes before it sends anything.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/api/collective.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// Throws UNIMPLEMENTED for a data type unknown to these headers, and INVALID_ARGUMENT if a rank's bytes are too many
/// to count. The message begins with `who` ("gloo all_reduce").
inline void check_elements(const cohort_op_args& args, int size, const char* who) {
  constexpr uint64_t kMostElements = uint64_t{1} << 56;
  if (size_of(args.dtype) == 0) {
    throw Error(COHORT_UNIMPLEMENTED, std::string(who) + ": unknown data type " + std::to_string(args.dtype));
  }
  uint64_t whole = args.counts ? 0 : args.count;
  for (int rank = 0; args.counts && rank < size && whole <= kMostElements; ++rank) {
    whole = args.counts[rank] > kMostElements ? args.counts[rank] : whole + args.counts[rank];
  }
  if (whole > kMostElements) throw invalid_argument(std::string(who) + ": impossible number of elements");
}

/// Calls check_elements. Throws UNIMPLEMENTED for a reduce operation unknown to these headers, and INVALID_ARGUMENT for
/// one that the data type does not have.
inline void check_reduction(const cohort_op_args& args, int size, const char* who) {
  check_elements(args, size, who);
  if (can_reduce(args.dtype, args.reduce)) return;
  const cohort_status refusal = refusal_of(args.dtype, args.reduce);
  const std::string operation = "reduce operation " + std::to_string(args.reduce);
  if (refusal == COHORT_UNIMPLEMENTED) throw Error(refusal, std::string(who) + ": unknown " + operation);
  throw Error(refusal,
              std::string(who) + ": " + operation + " is not possible on " + name_of(args.dtype) + " elements");
}

/// Throws INVALID_ARGUMENT unless args.root is one of the ranks.
inline void check_root(const cohort_op_args& args, int size, const char* who) {
  if (args.root >= 0 && args.root < size) return;
  throw invalid_argument(std::string(who) + ": root " + std::to_string(args.root) + " of " + std::to_string(size) +
                         " ranks");
}

}  // namespace v1
}  // namespace cohort::sdk
