#include "compressed_mean.hpp"

namespace cohort::bagua {
namespace {

void grow(sdk::DeviceBuffer& buffer, const sdk::Host& host, const cohort_bucket& bucket, uint64_t nbytes) {
  if (buffer.nbytes() < nbytes) buffer = host.alloc(bucket.device_type, bucket.device_index, nbytes);
}

}  // namespace

void CompressedMean::reserve(const sdk::Host& host, const cohort_bucket& bucket, int ranks) {
  const auto size = static_cast<uint64_t>(ranks);
  const uint64_t numel = bucket.numel / size;
  for (auto* const chunks : {&sent_, &received_}) grow(*chunks, host, bucket, chunk_nbytes(numel) * size);
  grow(sum_, host, bucket, numel * sizeof(float));
}

void CompressedMean::average(const sdk::Host& host, const sdk::Comm& ranks, const cohort_bucket& bucket,
                             const sdk::Elements& data, double divisor, NotFinite& finite) {
  const sdk::MinmaxUint8Kernels codec = host.minmax_uint8_kernels(bucket.device_type);
  const auto size = static_cast<uint64_t>(ranks.size());
  const uint64_t numel = data.count / size, nbytes = chunk_nbytes(numel);
  codec.encode(sent_.data(), data, size);
  finite.look(host, bucket, NotFinite::Chunks::kOwn, data, sent_.data(), nbytes);
  ranks.all_to_all({sent_.data(), nbytes, COHORT_UINT8, data.stream}, received_.data(), nbytes);
  const sdk::Elements sum{sum_.data(), numel, COHORT_FLOAT32, data.stream};
  codec.decode_add(sum, nullptr, received_.data(), size);
  void* const own = sent_.at(static_cast<uint64_t>(ranks.rank()) * nbytes);
  codec.encode(own, sum, 1, divisor);
  ranks.all_gather({own, nbytes, COHORT_UINT8, data.stream}, sent_.data());
  codec.decode(data, sent_.data(), size);
  finite.look(host, bucket, NotFinite::Chunks::kResult, data, sent_.data(), nbytes);
}

}  // namespace cohort::bagua
