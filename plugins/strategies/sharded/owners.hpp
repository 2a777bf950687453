// Which rank owns each parameter: as even as whole parameters allow, and the same on all ranks without a message.
//
// In the order of the buckets, windows of about a bucket are cut into one range for each rank, so that a bucket is
// scattered to its owners in one operation. Where parameters are too large for such cuts to be even, runs of parameters
// go to the rank that has least so far, largest first (Graham, "Bounds on multiprocessing timing anomalies", 1969).
#pragma once

#include <cstdint>
#include <vector>

namespace cohort::sharded {

struct Parameter {
  uint32_t id;
  uint64_t nbytes;
};

/// Parameters that may share a bucket, in the order of the buckets.
using Line = std::vector<Parameter>;

/// Returns the owner of each parameter, in the order of `lines`; `ranks` is above 0.
std::vector<std::vector<int>> owners_of(const std::vector<Line>& lines, int ranks);

}  // namespace cohort::sharded
