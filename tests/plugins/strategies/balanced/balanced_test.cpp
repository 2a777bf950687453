// The plugin through the C ABI: its plan, its answers and the cut that it writes.
#include <algorithm>
#include <string>
#include <vector>

#include <cohort/api/ext/draft/parts.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_host.hpp"
#include "fake_strategy.hpp"
#include "plugin_file.hpp"

namespace {

using cohort::test::FakeHost;
using cohort::test::LayerOver;
using cohort::test::RecordingBase;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const cohort_component& component() {
  return cohort::test::component_of(cohort::test::open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_STRATEGY);
}

struct Options {
  const char *parts = "0", *schedule = "1f1b", *cut = "auto", *memory = "0";
};

struct Job {
  int devices = 1, nodes = 1, started = 0;
};

class Balanced {
 public:
  explicit Balanced(const Options& options = {}) {
    EXPECT_EQ(layer_.create("", {{"parts", options.parts},
                                 {"schedule", options.schedule},
                                 {"cut", options.cut},
                                 {"memory", options.memory}}),
              COHORT_OK);
  }

  cohort_plan plan(const Job& given, cohort_status expected = COHORT_OK) {
    cohort_job job{};
    job.struct_size = sizeof job;
    job.device_type = COHORT_DEVICE_CPU;
    job.num_devices = given.devices;
    job.num_nodes = given.nodes;
    job.external_world_size = given.started;
    cohort_plan plan{};
    plan.struct_size = sizeof plan;
    EXPECT_EQ(layer_.vt().plan(layer_.get(), &job, &plan), expected);
    return plan;
  }

  const cohort_parts_1& table() {
    return *static_cast<const cohort_parts_1*>(layer_.vt().get_extension(layer_.get(), COHORT_PARTS_ID));
  }

  struct Cut {
    std::vector<uint32_t> first_units, in_flight;
  };
  Cut cut(const std::vector<cohort_unit>& units, const std::vector<uint64_t>& limits, uint32_t pieces,
          cohort_status expected = COHORT_OK) {
    Cut cut{std::vector<uint32_t>(limits.size(), 99), std::vector<uint32_t>(limits.size(), 99)};
    cohort_cut_args args{};
    args.struct_size = sizeof args;
    args.num_parts = static_cast<uint32_t>(limits.size());
    args.units = units.data();
    args.num_units = units.size();
    args.limits = limits.data();
    args.num_pieces = pieces;
    args.first_units = cut.first_units.data();
    args.in_flight = cut.in_flight.data();
    EXPECT_EQ(table().cut(table().data, &args), expected);
    return cut;
  }
  std::string refusal(const std::vector<cohort_unit>& units, const std::vector<uint64_t>& limits, uint32_t pieces) {
    cut(units, limits, pieces, COHORT_INVALID_ARGUMENT);
    return message();
  }
  std::string message() { return host_.take_failure(); }

 private:
  FakeHost host_;
  RecordingBase base_;
  LayerOver layer_{*static_cast<const cohort_strategy_vt*>(component().vtable), base_, host_.raw()};
};

constexpr uint64_t kMiB = 1 << 20;

/// Four units of a second, of 10 MiB of weights and 1 MiB that a piece keeps.
std::vector<cohort_unit> four_units() {
  std::vector<cohort_unit> units;
  for (const char* name : {"a", "b", "c", "d"}) units.push_back({name, 1.0, 10 * kMiB, kMiB, 0, 0, 0, 0});
  return units;
}

TEST(Balanced, PlansOneProcessForTheDevicesOfANode) {
  Balanced all;
  const cohort_plan alone = all.plan({.devices = 4});
  EXPECT_EQ(alone.processes_per_node, 1);
  EXPECT_EQ(alone.replicas_per_process, 1);
  EXPECT_EQ(alone.launch, COHORT_LAUNCH_NONE);
  EXPECT_EQ(all.table().num_parts, 4u);
  EXPECT_EQ(Balanced().plan({.devices = 4, .nodes = 2}).launch, COHORT_LAUNCH_EXEC);
  EXPECT_EQ(Balanced().plan({.devices = 4, .nodes = 2, .started = 2}).launch, COHORT_LAUNCH_NONE);
}

TEST(Balanced, PlansAProcessForEachGroupOfDevices) {
  Balanced pairs({.parts = "2"});
  const cohort_plan plan = pairs.plan({.devices = 6});
  EXPECT_EQ(plan.processes_per_node, 3);
  EXPECT_EQ(plan.launch, COHORT_LAUNCH_EXEC);
  EXPECT_EQ(pairs.table().num_parts, 2u);
}

TEST(Balanced, RefusesDevicesThatAreNoMultipleOfParts) {
  Balanced fours({.parts = "4"});
  fours.plan({.devices = 6}, COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(fours.message(),
            "parts=4 lays a model on as many devices, but each node has 6; ask for a multiple of them with "
            "--devices, or for other parts");
}

TEST(Balanced, LimitsThePiecesInFlightByItsSchedule) {
  Balanced alternating;
  EXPECT_EQ(alternating.table().flags, 0u);
  EXPECT_THAT(alternating.cut(four_units(), {0, 0}, 4).in_flight, ElementsAre(2u, 1u));
  EXPECT_THAT(alternating.cut(four_units(), {0, 0, 0}, 2).in_flight, ElementsAre(2u, 2u, 1u));
  Balanced forward_first({.schedule = "gpipe"});
  EXPECT_EQ(forward_first.table().flags, COHORT_PARTS_FORWARD_FIRST);
  EXPECT_THAT(forward_first.cut(four_units(), {0, 0}, 4).in_flight, ElementsAre(0u, 0u));
}

TEST(Balanced, CutsByTimeAndMemory) {
  auto units = four_units();
  units[3].seconds = 3;
  EXPECT_THAT(Balanced().cut(units, {0, 0}, 4).first_units, ElementsAre(0u, 3u));
  EXPECT_THAT(Balanced().cut(units, {30 * kMiB, 0}, 4).first_units, ElementsAre(0u, 2u)) << "three units need 36 MiB";
  EXPECT_THAT(Balanced({.memory = "31457280"}).cut(units, {0, 1}, 4).first_units, ElementsAre(0u, 2u))
      << "memory= goes before the device's own limit";
  EXPECT_THAT(Balanced({.cut = "b"}).cut(units, {0, 0}, 4).first_units, ElementsAre(0u, 1u));
}

TEST(Balanced, SaysHowMuchMemoryWouldDo) {
  const std::string text = Balanced().refusal(four_units(), {20 * kMiB, 20 * kMiB}, 4);
  EXPECT_EQ(text,
            "no cut of the model's 4 units into 2 parts fits into the devices; the one that needs least needs "
            "memory=24MiB; more --devices, or smaller pieces, need less: part 0 (a to b) needs 24MiB of 20MiB, part 1 "
            "(c to d) needs 22MiB of 20MiB");
  EXPECT_THAT(Balanced({.memory = "25165824"}).cut(four_units(), {20 * kMiB, 20 * kMiB}, 4).first_units,
              ElementsAre(0u, 2u));
  EXPECT_THAT(Balanced({.schedule = "gpipe"}).refusal(four_units(), {20 * kMiB, 20 * kMiB}, 8),
              HasSubstr("memory=36MiB"));
}

TEST(Balanced, RefusesANamedCutThatDoesNotFit) {
  Balanced named({.cut = "d"});
  EXPECT_THAT(named.refusal(four_units(), {0, 10 * kMiB}, 1),
              AllOf(HasSubstr("the parts that cut= names do not fit into the devices; they need memory=33MiB"),
                    HasSubstr("need less: part 0 (a to c) needs 33MiB, part 1 (d) needs 11MiB of 10MiB")));
  EXPECT_THAT(Balanced({.cut = "x"}).refusal(four_units(), {0, 0}, 1), HasSubstr("the model has no unit 'x'"));
}

cohort_query answer_to(int32_t use, int64_t value = 0) {
  FakeHost host;
  cohort_query query{};
  query.struct_size = sizeof query;
  query.use = use;
  query.value = value;
  query.variant = "";
  component().supports(host.raw(), &query);
  return query;
}

TEST(Balanced, AnswersWhatItCanServe) {
  for (const int32_t use : {COHORT_USE_CLOSURES, COHORT_USE_JOIN, COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION,
                            COHORT_USE_DEVICES, COHORT_USE_ACCUMULATION, COHORT_USE_ALONE, COHORT_USE_NODES}) {
    EXPECT_EQ(answer_to(use, 2).answer, COHORT_ANSWER_YES) << use;
  }
  for (const int32_t use : {COHORT_USE_OWN_LOOP, COHORT_USE_BY_HAND, COHORT_USE_GRAPH}) {
    EXPECT_EQ(answer_to(use).answer, COHORT_ANSWER_NO) << use;
    EXPECT_STREQ(answer_to(use).fix, "choose --strategy=ddp");
  }
  for (const int32_t type : {COHORT_DEVICE_CPU, COHORT_DEVICE_CUDA}) {
    EXPECT_EQ(answer_to(COHORT_USE_DEVICE_TYPE, type).answer, COHORT_ANSWER_YES);
  }
}

}  // namespace
