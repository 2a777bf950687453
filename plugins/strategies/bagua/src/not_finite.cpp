#include "not_finite.hpp"

#include "algorithm.hpp"

namespace cohort::bagua {
namespace {

constexpr const char* kConsequence = "; it is carried: every rank goes on with NaN in its place";
constexpr uint64_t kBeginNbytes = sizeof(float);  // of a chunk, by which are_finite knows

std::string one_of(const cohort_bucket& bucket) {
  return "a parameter of bucket " + std::to_string(bucket.index);
}

// Reads host memory.
std::string names_in(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& elements) {
  const sdk::CoreKernels kernels = host.core_kernels(COHORT_DEVICE_CPU);
  std::string names;
  for (uint64_t i = 0; i < bucket.num_parts; ++i) {
    uint32_t found = 0;
    kernels.found_inf(part_of(elements, bucket.parts[i]), &found);
    if (found != 0) names += (names.empty() ? "'" : ", '") + std::string(bucket.parts[i].name) + "'";
  }
  // A double may be finite and too large for the codec.
  return names.empty() ? one_of(bucket) : names;
}

}  // namespace

void NotFinite::configure(const sdk::Host& host, int ranks) {
  ranks_ = ranks;
  begins_ = sdk::DeviceBuffer();
  has_kept_ = false;
  const sdk::Buckets buckets = host.buckets();
  if (buckets.count() == 0 || buckets.at(0).device_type == COHORT_DEVICE_CPU) return;
  const cohort_bucket& first = buckets.at(0);
  begins_ = host.alloc(first.device_type, first.device_index, place_of(buckets.count(), Chunks::kOwn));
  host.core_kernels(first.device_type).fill({begins_.data(), begins_.nbytes(), COHORT_UINT8, host.stream(first)}, 0);
}

uint64_t NotFinite::place_of(uint64_t bucket, Chunks whose) const {
  return (2 * bucket + (whose == Chunks::kResult ? 1 : 0)) * static_cast<uint64_t>(ranks_) * kBeginNbytes;
}

void NotFinite::look(const sdk::Host& host, const cohort_bucket& bucket, Chunks whose, const sdk::Elements& data,
                     const void* chunks, uint64_t nbytes) {
  if (is_said_) return;
  if (!begins_.data()) {
    if (are_finite(chunks, nbytes, ranks_)) return;
    return report(host, bucket, whose, whose == Chunks::kOwn ? names_in(host, bucket, data) : "");
  }
  const sdk::CoreKernels kernels = host.core_kernels(bucket.device_type);
  uint64_t place = place_of(bucket.index, whose);
  for (int rank = 0; rank < ranks_; ++rank, place += kBeginNbytes) {
    const auto* const chunk = static_cast<const unsigned char*>(chunks) + static_cast<uint64_t>(rank) * nbytes;
    kernels.copy({begins_.at(place), kBeginNbytes, COHORT_UINT8, data.stream}, chunk);
  }
  has_kept_ = true;
}

void NotFinite::report_kept(const sdk::Host& host) {
  if (!has_kept_.exchange(false) || is_said_) return;
  const sdk::Buckets buckets = host.buckets();
  std::vector<unsigned char> begins(begins_.nbytes());
  host.read(begins.data(), begins_.data(), begins.size(), host.stream(buckets.at(0)));
  for (const Chunks whose : {Chunks::kOwn, Chunks::kResult}) {
    for (uint32_t index = 0; index < buckets.count(); ++index) {
      if (are_finite(begins.data() + place_of(index, whose), kBeginNbytes, ranks_)) continue;
      report(host, buckets.at(index), whose, one_of(buckets.at(index)));
    }
  }
}

void NotFinite::report(const sdk::Host& host, const cohort_bucket& bucket, Chunks whose, const std::string& names) {
  if (is_said_.exchange(true)) return;
  if (whose == Chunks::kOwn) {
    host.log().warning("rank ", host.world().rank(), ": the ", what_, " of ", names, " is NaN or infinite",
                       kConsequence);
  } else {
    host.log().warning("another rank sent a ", what_, " in bucket ", bucket.index, " (", bucket.parts[0].name,
                       " ...) that is NaN or infinite", kConsequence);
  }
}

}  // namespace cohort::bagua
