// Checks of an operation's arguments that every collective makes before it sends anything.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/api/collective.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// Throws UNIMPLEMENTED, in a sentence that begins with `who` ("gloo all_reduce"), for a data type that these headers
/// do not know, and INVALID_ARGUMENT if a rank has more elements than bytes can be counted for.
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

/// As check_elements. Throws UNIMPLEMENTED for a reduce operation that these headers do not know, and INVALID_ARGUMENT
/// for one that the data type does not have.
inline void check_reduction(const cohort_op_args& args, int size, const char* who) {
  check_elements(args, size, who);
  if (can_reduce(args.dtype, args.reduce)) return;
  const std::string what = std::string(who) + ": reduce operation " + std::to_string(args.reduce);
  throw Error(refusal_of(args.dtype, args.reduce), what + " is not possible on " + name_of(args.dtype) + " elements");
}

/// Throws INVALID_ARGUMENT unless the root is one of the ranks.
inline void check_root(const cohort_op_args& args, int size, const char* who) {
  if (args.root >= 0 && args.root < size) return;
  throw invalid_argument(std::string(who) + ": root " + std::to_string(args.root) + " of " + std::to_string(size) +
                         " ranks");
}

}  // namespace v1
}  // namespace cohort::sdk
