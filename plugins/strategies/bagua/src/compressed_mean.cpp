#include "compressed_mean.hpp"

#include <algorithm>

namespace cohort::bagua {
namespace {

uint64_t chunk_numel_of(uint64_t numel, int ranks) {
  return numel / static_cast<uint64_t>(ranks);
}

}  // namespace

void CompressedMean::reserve(uint64_t numel, int ranks) {
  const uint64_t chunk = chunk_numel_of(numel, ranks);
  const uint64_t nbytes = chunk_nbytes(chunk) * static_cast<uint64_t>(ranks);
  for (auto* const bytes : {&sent_, &received_}) bytes->resize(std::max<std::size_t>(bytes->size(), nbytes));
  sum_.resize(std::max<std::size_t>(sum_.size(), chunk));
}

bool CompressedMean::encode(const sdk::MinmaxUint8Kernels& codec, const sdk::Comm& ranks, const sdk::Elements& data) {
  codec.encode(sent_.data(), data, static_cast<uint64_t>(ranks.size()));
  return are_finite(sent_.data(), chunk_numel_of(data.count, ranks.size()), ranks.size());
}

bool CompressedMean::average(const sdk::MinmaxUint8Kernels& codec, const sdk::Comm& ranks, const sdk::Elements& data,
                             double divisor) {
  const auto size = static_cast<uint64_t>(ranks.size());
  const uint64_t numel = chunk_numel_of(data.count, ranks.size()), nbytes = chunk_nbytes(numel);
  ranks.all_to_all({sent_.data(), nbytes, COHORT_UINT8, data.stream}, received_.data(), nbytes);
  const sdk::Elements sum{sum_.data(), numel, COHORT_FLOAT32, data.stream};
  codec.decode_add(sum, nullptr, received_.data(), size);
  unsigned char* const own = sent_.data() + static_cast<uint64_t>(ranks.rank()) * nbytes;
  codec.encode(own, sum, 1, divisor);
  ranks.all_gather({own, nbytes, COHORT_UINT8, data.stream}, sent_.data());
  codec.decode(data, sent_.data(), size);
  return are_finite(sent_.data(), numel, ranks.size());
}

}  // namespace cohort::bagua
