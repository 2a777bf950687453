// The strategy's cut of a model: what it is asked with, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Units = std::vector<host::ModelUnit>;

ToyJob job_in_parts(const Spec& layer, int world_size = 1) {
  ToyJob job = ddp_job(world_size);
  job.layers = {layer};
  job.parts = 2;
  return job;
}

Spec parts(const std::string& first, const std::string& does = "") {
  return Spec("parts").set("first", first).set("does", does);
}

Units three_units() {
  return {{"a", 1, 10, 20, 30, 40, false}, {"b", 2, 11, 21, 31, 41, false}, {"c", 3, 12, 22, 32, 42, false}};
}

host::PartsCut cut(ToyRank& rank, const Units& units, const std::vector<uint64_t>& limits = {0, 0}) {
  return rank.runtime.cut_into_parts(units, limits, 4);
}

std::vector<std::string> refusals(const ToyJob& job, const Units& units) {
  return run_ranks_to_failure(job, [&](ToyRank& rank) { cut(rank, units); });
}

TEST(CutIntoParts, GivesTheStrategysCutToAllRanks) {
  for (const int ranks : {1, 2}) {
    run_ranks(job_in_parts(parts("0 2"), ranks), [](ToyRank& rank) {
      const host::PartsCut two = cut(rank, three_units());
      EXPECT_THAT(two.first_units, ElementsAre(0u, 2u));
      EXPECT_THAT(two.in_flight, ElementsAre(2u, 1u));
      EXPECT_FALSE(rank.runtime.runs_forward_first());
    });
  }
  run_ranks(job_in_parts(parts("0 1", "forward_first")),
            [](ToyRank& rank) { EXPECT_TRUE(rank.runtime.runs_forward_first()); });
  run_ranks(ddp_job(2), [](ToyRank& rank) { EXPECT_FALSE(rank.runtime.runs_forward_first()); });
}

TEST(CutIntoParts, AsksAllRanksWithTheSameArguments) {
  const auto texts = run_ranks_to_failure(job_in_parts(parts("", "tell"), 2), [](ToyRank& rank) {
    Units units = three_units();
    std::vector<uint64_t> limits{0, 500};
    if (rank.rank == 1) {
      for (host::ModelUnit& unit : units) unit.seconds = unit.seconds + 1, unit.kept_bytes = 7;
      units[2].stays = true;
      limits = {600, 700};
    }
    cut(rank, units, limits);
  });
  EXPECT_THAT(
      texts,
      Each(HasSubstr("a 1 10 20 30 40 0, b 2 11 21 31 41 0, c 3 12 22 32 42 1, limit 600, limit 500, 4 pieces")));
}

TEST(CutIntoParts, RefusesUnitsThatDifferBetweenRanks) {
  const auto texts = run_ranks_to_failure(job_in_parts(parts("0 1"), 2), [](ToyRank& rank) {
    Units units = three_units();
    if (rank.rank == 1) units[1].name = "other";
    cut(rank, units);
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("ranks run different units of the model"), HasSubstr("rank 0: b"),
                                HasSubstr("rank 1: other"))));
}

TEST(CutIntoParts, RefusesAModelWithFewerUnitsThanDevices) {
  Units units = three_units();
  units[1].stays = units[2].stays = true;
  EXPECT_THAT(refusals(job_in_parts(parts("0 1"), 2), units),
              Each("the model has 3 units and can be cut into 1 part at most, but each process has 2 devices; choose "
                   "fewer --devices"));
  EXPECT_THAT(refusals(job_in_parts(parts("0 1")), {}), Each(HasSubstr("the model has 0 units")));
}

TEST(CutIntoParts, RefusesACutThatIsNone) {
  const std::string begins = "strategy 'ddp' begins part ";
  const auto refusal = [](const std::string& first) {
    Units units = three_units();
    units[1].stays = true;
    return refusals(job_in_parts(parts(first)), units).front();
  };
  EXPECT_EQ(refusal("1 2"), begins + "0 of 2 at unit 1, but the first part begins at unit 0; tell its author");
  EXPECT_EQ(refusal("0 0"), begins + "1 of 2 at unit 0, but the part before it is then empty; tell its author");
  EXPECT_EQ(refusal("0 3"), begins + "1 of 2 at unit 3, but the model has 3 units; tell its author");
  EXPECT_EQ(refusal("0 1"), begins + "1 of 2 at unit 1, but no part can begin at 'b'; tell its author");
}

TEST(CutIntoParts, RefusesATableThatIsNone) {
  const auto refusal = [](const std::string& does) {
    return refusals(job_in_parts(parts("0 1", does)), three_units()).front();
  };
  EXPECT_THAT(refusal("table_short"), HasSubstr("cohort.parts/1 has a cohort_parts_1 of 8 bytes"));
  EXPECT_THAT(refusal("table_flags"), HasSubstr("cohort.parts/1 sets the flags 0x40000000 of its cohort_parts_1"));
  EXPECT_THAT(refusal("table_reserved"), HasSubstr("sets a reserved field of its cohort_parts_1"));
  EXPECT_THAT(refusal("table_empty"), HasSubstr("lacks its function"));
  ToyJob plain = ddp_job(1);
  plain.parts = 2;
  EXPECT_THAT(refusals(plain, three_units()).front(), HasSubstr("'ddp' does not cut a model into parts"));
}

TEST(APlan, HasTheNumberOfPartsOfItsStrategy) {
  host::LogSettings quiet;
  quiet.level = host::LogLevel::kOff;
  host::Log log(quiet);
  host::PluginHost plugins({.files = {}, .directories = {COHORT_TEST_PLUGINS, COHORT_TEST_LAYERS}}, log);
  cohort_job job{};
  job.struct_size = sizeof job;
  job.num_devices = 3;
  job.num_nodes = 1;
  const std::vector<Spec> layers{Spec("parts")};
  EXPECT_EQ(host::plan_of(plugins, StrategySpec("ddp"), layers, job, log).parts, 3u);
  EXPECT_EQ(host::plan_of(plugins, StrategySpec("ddp"), {}, job, log).parts, 0u);
  const std::vector<Spec> none{Spec("parts").set("does", "none")};
  EXPECT_THAT([&] { host::plan_of(plugins, StrategySpec("ddp"), none, job, log); },
              ::testing::ThrowsMessage<UserError>(HasSubstr("plans 0 parts of the model")));
}

}  // namespace
}  // namespace cohort::toy
