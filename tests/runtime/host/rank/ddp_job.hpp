// The job that the tests of a rank run: ddp over shared memory, ranks as threads.
#pragma once

#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {

inline ToyJob ddp_job(int world_size) {
  ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGINS, COHORT_TEST_LAYERS};
  job.strategy = StrategySpec("ddp");
  job.collective = CollectiveSpec("shm");
  job.world_size = world_size;
  return job;
}

}  // namespace cohort::toy
