// ddp whose ranks are forked from the running program in each of fit, validate and test, where that can be.
#include <cohort/sdk/strategy.hpp>

namespace {

struct DdpSpawn : cohort::sdk::Strategy<DdpSpawn> {
  void plan(const cohort_job& job, cohort_plan& plan) {
    super().plan(job, plan);
    const bool can_fork = job.device_type == COHORT_DEVICE_CPU && job.num_nodes == 1;
    if (can_fork && plan.launch == COHORT_LAUNCH_EXEC) plan.launch = COHORT_LAUNCH_FORK;
  }
};

constexpr cohort_component kDdpSpawn =
    cohort::sdk::strategy<DdpSpawn>("ddp_spawn", "ddp whose ranks are forked from the running program for each fit")
        .inherits("ddp");

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.ddp_spawn", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDdpSpawn)
