#include "not_finite.hpp"

#include <string>

namespace cohort::bagua {
namespace {

constexpr const char* kConsequence = "; it is carried: every rank goes on with NaN in its place";

std::string names_in(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& elements) {
  const sdk::CoreKernels kernels = host.core_kernels(bucket.stream.device_type);
  std::string names;
  for (uint64_t i = 0; i < bucket.num_parts; ++i) {
    const cohort_bucket_part& part = bucket.parts[i];
    auto* const first = static_cast<unsigned char*>(elements.data) + part.offset * sdk::size_of(elements.dtype);
    uint32_t found = 0;
    kernels.found_inf({first, part.numel, elements.dtype, elements.stream}, &found);
    if (found != 0) names += (names.empty() ? "'" : ", '") + std::string(part.name) + "'";
  }
  // A double may be finite and too large for the codec.
  return names.empty() ? "a parameter of bucket " + std::to_string(bucket.index) : names;
}

}  // namespace

void NotFinite::report_own(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& elements,
                           const char* what) {
  if (is_said_.exchange(true)) return;
  host.log().warning("rank ", host.world().rank(), ": the ", what, " of ", names_in(host, bucket, elements),
                     " is NaN or infinite", kConsequence);
}

void NotFinite::report_other(const sdk::Host& host, const cohort_bucket& bucket, const char* what) {
  if (is_said_.exchange(true)) return;
  host.log().warning("another rank sent a ", what, " in bucket ", bucket.index, " (", bucket.parts[0].name,
                     " ...) that is NaN or infinite", kConsequence);
}

}  // namespace cohort::bagua
