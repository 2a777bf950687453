#include "algorithm.hpp"

namespace cohort::bagua {

void require_kernels(const sdk::Host& host) {
  for_all_buckets(host, [&](const cohort_bucket& bucket) {
    const cohort_kernels_1& kernels = host.kernels(bucket.stream.device_type);
    if (kernels.axpby && kernels.copy && kernels.scale) return;
    throw sdk::Error(
        COHORT_UNIMPLEMENTED,
        "bagua computes with the kernels axpby, copy and scale, one of which this accelerator lacks; choose "
        "--strategy=ddp");
  });
}

}  // namespace cohort::bagua
