// A sum or mean over ranks of which one byte for each element travels, twice: bytegrad's, and qadam's of the momentum.
//
// With n ranks a bucket is n chunks. Chunk r of every rank goes, encoded, to rank r, which adds them up in rank order
// in float32, divides, and sends the result, encoded again, to all. Everybody decodes the same bytes, so all ranks have
// the same bits. The buffers are this object's: one call at a time.
#pragma once

#include <cstdint>

#include "codec.hpp"
#include "not_finite.hpp"

namespace cohort::bagua {

class CompressedMean {
 public:
  /// For this bucket and `ranks` ranks, and those that it was called for before. [main]
  void reserve(const sdk::Host& host, const cohort_bucket& bucket, int ranks);
  /// `data` of the bucket, a multiple of `ranks.size()` elements, becomes the sum over the ranks divided by `divisor`.
  /// Sent and received chunks are shown to `finite`. [lane]
  void average(const sdk::Host& host, const sdk::Comm& ranks, const cohort_bucket& bucket, const sdk::Elements& data,
               double divisor, NotFinite& finite);

 private:
  sdk::DeviceBuffer sent_, received_;  // a chunk for each rank
  sdk::DeviceBuffer sum_;              // of one chunk, float32
};

}  // namespace cohort::bagua
