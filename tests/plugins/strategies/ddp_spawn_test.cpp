#include <gmock/gmock.h>

#include "fake_host.hpp"
#include "fake_strategy.hpp"
#include "plugin_file.hpp"

namespace {

using namespace cohort::test;

class DdpSpawn : public testing::Test {
 protected:
  DdpSpawn() : layer(vtable(), base, host.raw()) { EXPECT_EQ(layer.create(), COHORT_OK); }

  static const cohort_strategy_vt& vtable() {
    return *static_cast<const cohort_strategy_vt*>(
        component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_STRATEGY).vtable);
  }
  /// What is planned where the layer below executes the program again.
  int32_t launch(int32_t device_type, int32_t nodes) {
    cohort_job job{sizeof job, device_type, 2, nodes, 0, 0};
    cohort_plan plan{sizeof(cohort_plan), -1, -1, -1, nullptr};
    EXPECT_EQ(layer.vt().plan(layer.get(), &job, &plan), COHORT_OK);
    return plan.launch;
  }

  FakeHost host;
  RecordingBase base;
  LayerOver layer;
};

TEST_F(DdpSpawn, ForksWhereDdpWouldExecuteOnOneNodeOfCpus) {
  EXPECT_EQ(launch(COHORT_DEVICE_CPU, 1), COHORT_LAUNCH_FORK);
}

TEST_F(DdpSpawn, DoesNotForkGpusOrSeveralNodes) {
  EXPECT_EQ(launch(COHORT_DEVICE_CUDA, 1), COHORT_LAUNCH_EXEC);
  EXPECT_EQ(launch(COHORT_DEVICE_CPU, 2), COHORT_LAUNCH_EXEC);
}

TEST_F(DdpSpawn, InheritsEveryOtherStep) {
  EXPECT_EQ(layer.vt().init_dist_connection, nullptr);
  EXPECT_EQ(layer.vt().configure_model, nullptr);
  EXPECT_EQ(layer.vt().reduce_bucket, nullptr);
  EXPECT_EQ(layer.vt().optimizer_step, nullptr);
  EXPECT_EQ(layer.vt().shutdown, nullptr);
}

}  // namespace
