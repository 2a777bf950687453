#include <gmock/gmock.h>

#include <cohort/checkpoint.hpp>

#include "training_job.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Checkpoints, ChangeNothingOfTheTrainingThatWritesThem) {
  const TemporaryFolder folder;
  const auto often = [](Options& o) { o.checkpoint_every_n_steps = 1; };
  const Outcome plain = train({}), writes = train(writing(folder.path(), often));
  expect_same_end({}, writes, plain);
}

TEST(Checkpoints, AreWrittenAtTheEndsOfEpochsAndTheNewestTwoAreKept) {
  const TemporaryFolder folder;
  train(writing(folder.path()));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000012", "step-00000018"));
  EXPECT_THAT(names_in(folder.path() / "step-00000018"),
              ElementsAre("manifest.json", "rank-0.safetensors", "shared.safetensors"));
}

TEST(Checkpoints, AreWrittenEveryNStepsToo) {
  const TemporaryFolder folder;
  train(writing(folder.path(), [](Options& o) {
    o.checkpoint_every_n_steps = 4;
    o.keep_checkpoints = 100;
  }));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000004", "step-00000006", "step-00000008", "step-00000012",
                                                   "step-00000016", "step-00000018"));
}

TEST(Checkpoints, HoldWeightsAndOptimizerByName) {
  const TemporaryFolder folder;
  const Outcome whole = train(writing(folder.path()));
  const auto file = read_safetensors(folder.path() / "step-00000018/shared.safetensors");
  ASSERT_TRUE(file.find("bn.running_mean"));
  EXPECT_TRUE(torch::equal(*file.find("bn.running_mean"), whole.running_mean));
  EXPECT_TRUE(file.find("fc1.weight"));
  EXPECT_TRUE(file.find("optimizer.exp_avg.fc1.weight"));
  EXPECT_EQ(file.find("optimizer.step.fc2.bias")->item<int64_t>(), 18);
}

// This rank owns the matrices, and all ranks keep the rest.
void own_matrices(Script& script) {
  script.state_keeper = [](const at::Tensor& parameter) {
    return parameter.dim() == 2 ? host::StateKeeper::kThisRank : host::StateKeeper::kEveryRank;
  };
}

TEST(Checkpoints, HoldStateThatARankOwnsInAFileOfItsOwn) {
  const TemporaryFolder folder;
  Job job = writing(folder.path(), [](Options& o) { o.max_epochs = 2; });
  job.script = own_matrices;
  train(job);
  const fs::path checkpoint = folder.path() / "step-00000012";
  EXPECT_THAT(names_in(checkpoint),
              ElementsAre("manifest.json", "optimizer-0.safetensors", "rank-0.safetensors", "shared.safetensors"));
  const auto shared = read_safetensors(checkpoint / "shared.safetensors");
  const auto owned = read_safetensors(checkpoint / "optimizer-0.safetensors");
  EXPECT_FALSE(shared.find("optimizer.exp_avg.fc1.weight"));
  EXPECT_TRUE(shared.find("optimizer.exp_avg.fc1.bias"));
  EXPECT_TRUE(owned.find("optimizer.exp_avg.fc1.weight"));
  EXPECT_EQ(owned.find("optimizer.step.fc2.weight")->item<int64_t>(), 12);
  EXPECT_EQ(owned.tensors.size(), 6U);  // of two matrices
}

TEST(Checkpoints, GoOnWhereStateHasOtherOwners) {
  const Outcome whole = train({});
  for (const bool owns_at_first : {true, false}) {
    const TemporaryFolder folder;
    Job first = writing(folder.path(), [](Options& o) { o.max_epochs = 2; });
    Job second = writing(folder.path(), [](Options& o) { o.resume = "auto"; });
    (owns_at_first ? first : second).script = own_matrices;
    train(first);
    EXPECT_EQ(train(second).digest, whole.digest);
  }
}

TEST(Checkpoints, AreReadWithoutStateThatAnotherRankKeeps) {
  const TemporaryFolder folder;
  train(writing(folder.path(), [](Options& o) { o.max_epochs = 2; }));
  ScriptedRun run([](Script& s) {
    s.state_keeper = [](const at::Tensor& parameter) {
      return parameter.dim() == 2 ? host::StateKeeper::kAnotherRank : host::StateKeeper::kThisRank;
    };
  });
  Learner net;
  Session session(run.runtime(), net, net.configure_optimizers());
  load(session, folder.path());
  std::vector<int64_t> dimensions;
  for (const auto& parameter : net.parameters()) {
    if (net.adam->state().count(parameter.unsafeGetTensorImpl()) > 0) dimensions.push_back(parameter.dim());
  }
  EXPECT_THAT(dimensions, ElementsAre(1, 1, 1, 1));  // fc1.bias, bn.weight, bn.bias, fc2.bias
}

TEST(Checkpoints, OfAFinishedTrainingLeaveNothingToDo) {
  const TemporaryFolder folder;
  const Outcome whole = train(writing(folder.path()));
  const Outcome again = train(writing(folder.path(), [](Options& o) { o.resume = "auto"; }));
  EXPECT_TRUE(again.seen.empty());
  EXPECT_EQ(again.digest, whole.digest);
  EXPECT_EQ(again.steps, whole.steps);
  EXPECT_EQ(again.epochs, 3);
}

TEST(Checkpoints, AreNotWrittenByADevelopmentRunOrOfALossThatIsNotFinite) {
  const TemporaryFolder folder;
  train(writing(folder.path(), [](Options& o) { o.fast_dev_run = 2; }));
  EXPECT_TRUE(names_in(folder.path()).empty());
  Job broken = writing(folder.path());
  broken.prepare = [](Learner& net) { net.fc2->bias.data().fill_(NAN); };
  EXPECT_THROW(train(broken), TrainingFailed);
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Checkpoints, AndTheOldOneStayWhereAnotherRankCannotWrite) {
  const TemporaryFolder folder;
  Job job = writing(folder.path());
  int failing = 0;
  job.script = [&](Script& s) {
    s.all_gather = [&](std::string own) {
      // The first checkpoint is complete when its folder is there; then rank 1's disk is full.
      if (own.empty() && !names_in(folder.path()).empty() &&
          fs::exists(folder.path() / "step-00000006/manifest.json") && ++failing > 2) {
        return std::vector<std::string>{own, "mcannot write rank-1.safetensors: No space left on device"};
      }
      return std::vector{std::move(own)};
    };
  };
  EXPECT_THAT(error_text<UserError>([&] { train(job); }),
              HasSubstr("rank 1: cannot write rank-1.safetensors: No space left on device"));
  const Outcome resumed = train(writing(folder.path(), [](Options& o) { o.resume = "auto"; }));
  EXPECT_EQ(resumed.digest, train({}).digest);
}

}  // namespace
}  // namespace cohort::testing
