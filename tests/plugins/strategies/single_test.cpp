#include <gmock/gmock.h>

#include "fake_host.hpp"
#include "fake_strategy.hpp"
#include "plugin_file.hpp"

namespace {

using namespace cohort::test;
using testing::HasSubstr;

class Single : public testing::Test {
 protected:
  Single() : layer(vtable(), base, host.raw()) { EXPECT_EQ(layer.create(), COHORT_OK); }

  static const cohort_strategy_vt& vtable() {
    return *static_cast<const cohort_strategy_vt*>(
        component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_STRATEGY).vtable);
  }
  cohort_status plan(int32_t devices, int32_t nodes, int32_t external) {
    cohort_job job{sizeof job, COHORT_DEVICE_CPU, devices, nodes, external, 0};
    return layer.vt().plan(layer.get(), &job, &result);
  }

  FakeHost host;
  RecordingBase base;
  LayerOver layer;
  cohort_plan result{sizeof(cohort_plan), -1, -1, -1, nullptr};
};

TEST_F(Single, PlansOneProcessWithoutCommunication) {
  ASSERT_EQ(plan(1, 1, 0), COHORT_OK);
  EXPECT_EQ(result.processes_per_node, 1);
  EXPECT_EQ(result.replicas_per_process, 1);
  EXPECT_EQ(result.launch, COHORT_LAUNCH_NONE);
  EXPECT_STREQ(result.collectives, "");
  EXPECT_EQ(plan(1, 1, 1), COHORT_OK);
}

TEST_F(Single, RefusesSeveralDevicesAndNamesTheWayOut) {
  EXPECT_EQ(plan(2, 1, 0), COHORT_INVALID_ARGUMENT);
  const std::string message = host.take_failure();
  EXPECT_THAT(message, HasSubstr("2 devices were asked for"));
  EXPECT_THAT(message, HasSubstr("--strategy=ddp"));
}

TEST_F(Single, RefusesSeveralNodesAndSeveralStartedRanks) {
  EXPECT_EQ(plan(1, 2, 0), COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(host.take_failure(), HasSubstr("2 nodes"));
  EXPECT_EQ(plan(1, 1, 4), COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(host.take_failure(), HasSubstr("4 ranks"));
}

TEST_F(Single, InheritsEveryOtherStep) {
  EXPECT_EQ(layer.vt().init_dist_connection, nullptr);
  EXPECT_EQ(layer.vt().configure_model, nullptr);
  EXPECT_EQ(layer.vt().reduce_bucket, nullptr);
  EXPECT_EQ(layer.vt().optimizer_step, nullptr);
}

}  // namespace
