// One process, one device.
#include <string>

#include <cohort/sdk/strategy.hpp>

namespace {

struct Single : cohort::sdk::Strategy<Single> {
  void plan(const cohort_job& job, cohort_plan& plan) {
    refuse_several(job.num_devices, "devices were asked for");
    refuse_several(job.num_nodes, "nodes were asked for");
    refuse_several(job.external_world_size, "ranks were started");
    plan.processes_per_node = 1;
    plan.replicas_per_process = 1;
    plan.launch = COHORT_LAUNCH_NONE;
    plan.collectives = "";
  }

 private:
  static void refuse_several(int32_t count, const char* what) {
    if (count <= 1) return;
    throw cohort::sdk::invalid_argument("strategy single runs on one device, but " + std::to_string(count) + " " +
                                        what + "; choose --strategy=ddp or ask for one");
  }
};

cohort::sdk::Answer supports(const cohort::sdk::Query& query) {
  switch (query.use()) {
    case COHORT_USE_ALONE:
    case COHORT_USE_LAUNCHED:
    case COHORT_USE_NODES:
      return cohort::sdk::no("it is one process that talks to nobody", "choose --strategy=ddp");
    default:
      return cohort::sdk::yes_to_known(query, {COHORT_USE_CLOSURES, COHORT_USE_GRAPH, COHORT_USE_JOIN,
                                               COHORT_USE_LOSS_SCALER, COHORT_USE_DEVICES, COHORT_USE_PRECISION});
  }
}

constexpr cohort_component kSingle =
    cohort::sdk::strategy<Single>("single", "one process on one device; nothing is communicated").supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.single", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kSingle)
