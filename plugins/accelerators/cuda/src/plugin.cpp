// The descriptor of the plugin.
#include "cuda.hpp"

namespace {

namespace sdk = cohort::sdk;

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_FORK) return sdk::no("CUDA does not work in forks", "choose --strategy=ddp");
  return sdk::yes_to_known(query, {COHORT_USE_UNNAMED});
}

constexpr cohort_component kCuda =
    sdk::accelerator<cohort::cuda::Cuda>("cuda", "NVIDIA GPUs, with kernels for all of them").supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.cuda", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kCuda)
