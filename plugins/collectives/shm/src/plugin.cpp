// The collective `shm`: ranks of one machine, through shared memory.
#include <memory>

#include <cohort/sdk/collective.hpp>

#include "communicator.hpp"
#include "connect.hpp"

namespace {

namespace sdk = cohort::sdk;

struct Shm : sdk::Collective<Shm, cohort::shm::Communicator> {
  std::unique_ptr<cohort::shm::Communicator> connect(const cohort_connect_args& args) {
    return cohort::shm::connect(args);
  }
};

const char* why_not(const cohort_query& query) {
  if (query.device_type != COHORT_DEVICE_CPU) return "shm moves CPU memory only";
  if (query.num_nodes > 1) return "shm connects the ranks of one machine; use gloo across several";
  if (query.world_size > cohort::shm::kMaxRanks) return "shm connects at most 256 ranks";
  return nullptr;
}

void supports(const cohort_host*, cohort_query* query) noexcept {
  query->reason = why_not(*query);
  query->score = query->reason ? 0 : 10;
}

constexpr cohort_component kShm =
    sdk::collective<Shm>("shm", "ranks of one machine, through shared memory").supports(supports);

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.shm", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kShm)
