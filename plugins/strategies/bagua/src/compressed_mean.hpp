// A sum or mean over ranks of which one byte for each element travels, twice: bytegrad's, and qadam's of the momentum.
//
// With n ranks a bucket is n chunks. Chunk r of every rank goes, encoded, to rank r, which adds them up in rank order
// in float32, divides, and sends the result, encoded again, to all. Everybody decodes the same bytes, so all ranks have
// the same bits. The buffers are this object's: one call at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "codec.hpp"

namespace cohort::bagua {

class CompressedMean {
 public:
  /// For buckets of at most `numel` elements and `ranks` ranks, and those that it was called for before.
  void reserve(uint64_t numel, int ranks);

  /// The first half: encodes this rank's data. False where an element is not finite. [lane]
  bool encode(const sdk::MinmaxUint8Kernels& codec, const sdk::Comm& ranks, const sdk::Elements& data);
  /// The second half: `data`, a multiple of `ranks.size()` elements, becomes the sum over the ranks divided by
  /// `divisor`. False where an element of it is not finite. [lane]
  bool average(const sdk::MinmaxUint8Kernels& codec, const sdk::Comm& ranks, const sdk::Elements& data, double divisor);

 private:
  std::vector<unsigned char> sent_, received_;  // a chunk for each rank
  std::vector<float> sum_;                      // of one chunk
};

}  // namespace cohort::bagua
