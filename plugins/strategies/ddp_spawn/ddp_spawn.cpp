// ddp whose ranks are forked from the running program in each of fit, validate and test, where that can be.
#include <cohort/sdk/strategy.hpp>

namespace {

struct DdpSpawn : cohort::sdk::Strategy<DdpSpawn> {
  void plan(const cohort_job& job, cohort_plan& plan) {
    below().plan(job, plan);
    const bool can_fork = job.device_type == COHORT_DEVICE_CPU && job.num_nodes == 1;
    if (can_fork && plan.launch == COHORT_LAUNCH_EXEC) plan.launch = COHORT_LAUNCH_FORK;
  }
};

cohort::sdk::Answer supports(const cohort::sdk::Query& query) {
  switch (query.use()) {
    case COHORT_USE_LAUNCHED:
      return cohort::sdk::no("it forks its ranks itself", "choose --strategy=ddp");
    case COHORT_USE_NODES:
      return cohort::sdk::no("its ranks are forks of one process", "choose --strategy=ddp");
    case COHORT_USE_DEVICE_TYPE:
      if (query.value() == COHORT_DEVICE_CPU) return cohort::sdk::yes();
      return cohort::sdk::no("a process that uses a GPU cannot be forked", "choose --strategy=ddp");
    case COHORT_USE_OWN_LOOP:
      if (query.world_size() == 1) return cohort::sdk::yes();
      return cohort::sdk::no("only fit, validate and test can be forked", "choose --strategy=ddp");
    default:
      return cohort::sdk::yes_to_known(
          query, {COHORT_USE_CLOSURES, COHORT_USE_JOIN, COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION});
  }
}

constexpr cohort_component kDdpSpawn =
    cohort::sdk::strategy<DdpSpawn>("ddp_spawn", "ddp whose ranks are forked from the running program for each fit")
        .inherits("ddp")
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.ddp_spawn", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDdpSpawn)
