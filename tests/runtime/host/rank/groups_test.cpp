// Communicators that a strategy makes: split, used on their lanes, aborted and closed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/host_object.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

ToyJob groups_job(int world_size, const char* does) {
  ToyJob job = ddp_job(world_size);
  job.layers = {Spec("groups").set("does", does)};
  return job;
}

void train_groups(ToyRank& rank) {
  ToyModel model({{"a", 300}}, 0.0, 1.0);
  host::StepEngine& engine = rank.runtime.configure(model);
  const std::vector<std::vector<double>> gradients{std::vector<double>(300, 1.0)};
  for (int step = 0; step < 5; ++step) rank.step(engine, model, gradients);
  EXPECT_EQ(model.weights(0), std::vector<double>(300, -5.0));
  rank.runtime.release_model(model);
}

std::string refusal_of(const char* does) {
  const auto texts = run_ranks_to_failure(groups_job(2, does), train_groups);
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

TEST(Groups, AddOverTheirRanksOnTheirLane) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(groups_job(ranks, "add"), [](ToyRank& rank) {
      train_groups(rank);
      std::vector<std::string> names;
      for (const auto& flight : rank.runtime.host().recorder().flights()) names.push_back(flight.communicator);
      EXPECT_THAT(names, Contains("pairs/pair " + std::to_string(rank.rank / 2)));
    });
  }
}

TEST(Groups, AreMadeOfEveryCollective) {
  for (const char* collective :
       {"sim,over=shm,bandwidth=100Gbit,latency=1us", "hier,across=sim,,bandwidth=100Gbit,,latency=1us"}) {
    ToyJob job = groups_job(4, "add");
    job.num_nodes = 2;
    job.collective = host::parse_spec(collective, "test");
    run_ranks(job, train_groups);
  }
}

TEST(Groups, ShareTheMemoryOfTheirRoot) {
  for (const int ranks : {1, 2, 4}) run_ranks(groups_job(ranks, "share"), train_groups);
}

TEST(Groups, AreMadeAndClosedManyTimes) {
  run_ranks(groups_job(4, "again"), [](ToyRank& rank) {
    train_groups(rank);
    std::vector<std::string> names;
    for (const auto& flight : rank.runtime.host().recorder().flights()) names.push_back(flight.communicator);
    EXPECT_THAT(names, Each(::testing::Not(HasSubstr("half"))));
  });
}

TEST(Groups, ThatAreAbortedFail) {
  const auto texts = run_ranks_to_failure(groups_job(2, "abort"), train_groups);
  EXPECT_THAT(texts, Each(HasSubstr("abort")));
}

TEST(Groups, OfTheHostAreNotClosedByALayer) {
  EXPECT_THAT(refusal_of("close_world"),
              AllOf(HasSubstr("'groups' gave comm/1.close a communicator that is not its own"),
                    HasSubstr("it can use those that comm/1 gave to it, until it closes them")));
}

TEST(Groups, AreClosedAfterTheirParts) {
  EXPECT_THAT(refusal_of("close_first"), HasSubstr("1 communicator(s) were split from this one; close them first"));
}

TEST(Groups, AreUnknownOnceTheyAreClosed) {
  EXPECT_THAT(refusal_of("twice"), HasSubstr("gave an operation of comm/1 a communicator that is not its own"));
}

TEST(Groups, ThatAPluginBuildsItselfAreRefused) {
  EXPECT_THAT(refusal_of("foreign"), HasSubstr("gave an operation of comm/1 a communicator that is not its own"));
}

TEST(Groups, NeedALaneAndAName) {
  EXPECT_THAT(refusal_of("no_lane"), HasSubstr("comm/1.split: there is no lane 9"));
  EXPECT_THAT(refusal_of("no_name"), HasSubstr("a communicator cannot be called 'A pair'"));
}

TEST(Groups, AreOpenedOverTheStoreOfTheJob) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(groups_job(ranks, "open"), train_groups);
    run_ranks(groups_job(ranks, "open_alone"), train_groups);
  }
}

// The keys of the first training must not be those of the second.
TEST(Groups, AreOpenedAgainInTheNextTraining) {
  run_ranks(groups_job(3, "open"), [](ToyRank& rank) {
    for (int training = 0; training < 3; ++training) train_groups(rank);
  });
}

TEST(Groups, ThatAreOpenedNeedANameAndARank) {
  EXPECT_THAT(refusal_of("open_no_name"), HasSubstr("comm/1.open: the group needs a store, a name and a timeout"));
  EXPECT_THAT(refusal_of("open_no_rank"), HasSubstr("comm/1.open: there is no rank 2 in a group of 2"));
}

TEST(Groups, CannotReplaceTheWorld) {
  EXPECT_THAT(refusal_of("bind"), HasSubstr("comm/1.bind was called twice"));
}

}  // namespace
}  // namespace cohort::toy
