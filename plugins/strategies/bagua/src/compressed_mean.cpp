#include "compressed_mean.hpp"

#include <algorithm>

namespace cohort::bagua {
namespace {

uint64_t chunk_numel_of(uint64_t numel, int ranks) {
  return numel / static_cast<uint64_t>(ranks);
}

void* elements_of_chunk(const sdk::Elements& data, int rank, uint64_t numel) {
  return static_cast<unsigned char*>(data.data) + static_cast<uint64_t>(rank) * numel * sdk::size_of(data.dtype);
}

}  // namespace

void CompressedMean::reserve(uint64_t numel, int ranks) {
  const uint64_t chunk = chunk_numel_of(numel, ranks);
  const uint64_t nbytes = chunk_nbytes(chunk) * static_cast<uint64_t>(ranks);
  for (auto* const bytes : {&sent_, &received_}) bytes->resize(std::max<std::size_t>(bytes->size(), nbytes));
  sum_.resize(std::max<std::size_t>(sum_.size(), chunk));
}

bool CompressedMean::encode(const Codec& codec, const sdk::Comm& ranks, const sdk::Elements& data) {
  const uint64_t numel = chunk_numel_of(data.count, ranks.size());
  bool all_finite = true;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    codec.encode(chunk(rank, numel), elements_of_chunk(data, rank, numel), data.dtype, numel);
    all_finite = all_finite && is_finite(chunk(rank, numel));
  }
  return all_finite;
}

bool CompressedMean::average(const Codec& codec, const sdk::Comm& ranks, const sdk::Elements& data, double divisor) {
  const uint64_t numel = chunk_numel_of(data.count, ranks.size()), nbytes = chunk_nbytes(numel);
  ranks.all_to_all({sent_.data(), nbytes, COHORT_UINT8, data.stream}, received_.data(), nbytes);
  add_up(codec, ranks.size(), numel);
  unsigned char* const own = chunk(ranks.rank(), numel);
  codec.encode(own, sum_.data(), COHORT_FLOAT32, numel, divisor);
  ranks.all_gather({own, nbytes, COHORT_UINT8, data.stream}, sent_.data());
  bool all_finite = true;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    codec.decode(elements_of_chunk(data, rank, numel), data.dtype, chunk(rank, numel), 0, numel);
    all_finite = all_finite && is_finite(chunk(rank, numel));
  }
  return all_finite;
}

// Tile by tile in rank order.
void CompressedMean::add_up(const Codec& codec, int ranks, uint64_t numel) {
  for (uint64_t first = 0; first < numel; first += kTile) {
    const uint64_t count = std::min(kTile, numel - first);
    codec.decode(&sum_[first], COHORT_FLOAT32, received_.data(), first, count);
    for (int rank = 1; rank < ranks; ++rank) {
      const unsigned char* const piece = received_.data() + static_cast<uint64_t>(rank) * chunk_nbytes(numel);
      codec.decode_add(&sum_[first], COHORT_FLOAT32, piece, first, count);
    }
  }
}

}  // namespace cohort::bagua
