#include <gmock/gmock.h>

#include "fake_host.hpp"
#include "fake_strategy.hpp"
#include "plugin_file.hpp"

namespace {

using namespace cohort::test;
using testing::ElementsAre;

const cohort_component& component() {
  return component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_STRATEGY);
}

TEST(CLayer, IsAFreeLayerThatFillsOneSlot) {
  EXPECT_STREQ(component().inherits, "*");
  const auto& vt = *static_cast<const cohort_strategy_vt*>(component().vtable);
  EXPECT_NE(vt.init_dist_connection, nullptr);
  EXPECT_EQ(vt.create, nullptr);
  EXPECT_EQ(vt.plan, nullptr);
  EXPECT_EQ(vt.configure_model, nullptr);
  EXPECT_EQ(vt.reduce_bucket, nullptr);
}

TEST(CLayer, LogsAndPassesTheCallOn) {
  FakeHost host;
  RecordingBase base;
  LayerOver layer(*static_cast<const cohort_strategy_vt*>(component().vtable), base, host.raw());
  cohort_dist_args args{};
  args.struct_size = sizeof args;
  args.rank = 1;
  args.world_size = 4;
  args.master_addr = "10.0.0.7";
  args.master_port = 29500;
  EXPECT_EQ(layer.vt().init_dist_connection(layer.get(), &args), COHORT_OK);
  EXPECT_THAT(base.calls, ElementsAre("init_dist_connection"));
  EXPECT_EQ(base.last_dist_args.rank, 1);
  EXPECT_THAT(host.log_lines(), ElementsAre("rendezvous_layer: rank 1 of 4 meets at 10.0.0.7:29500"));
  base.result = COHORT_UNAVAILABLE;
  EXPECT_EQ(layer.vt().init_dist_connection(layer.get(), &args), COHORT_UNAVAILABLE);
}

}  // namespace
