// plan: pure, and every device is used.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

COHORT_ON_SHAPES(Plan, all_shapes());

TEST_P(Plan, IsTheSameWheneverItIsAskedForAndUsesEveryDevice) {
  const int processes = shape().ranks / shape().nodes;
  for (int time = 0; time < 2; ++time) {
    const cohort_plan plan = subject().plan_of(processes * shape().replicas, shape().nodes);
    EXPECT_EQ(plan.processes_per_node, processes);
    EXPECT_EQ(plan.replicas_per_process, shape().replicas);
    EXPECT_EQ(plan.launch == COHORT_LAUNCH_NONE, shape().ranks == 1 || subject().is_driven())
        << "launch " << plan.launch;
  }
}

}  // namespace
