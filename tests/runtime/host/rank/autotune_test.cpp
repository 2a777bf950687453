// --autotune: what is tried, what is written, and that results stay the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

#include <cohort/host/error.hpp>

#include "ddp_job.hpp"
#include "rank/tuning_report.hpp"
#include "temporary_folder.hpp"

namespace cohort::toy {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kStepsOfAllTrials = 150;
constexpr uint64_t kLarge = 1'400'000;  // elements

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// 16.8 MB, most of which backward does not reach: their size is what matters.
std::vector<ToyParameter> parameters_of_several_sizes() {
  return {{"a", 100}, {"b", kLarge}, {"c", kLarge}, {"d", kLarge}, {"e", 100}};
}

std::vector<double> train_several(ToyRank& rank, const std::vector<ToyParameter>& parameters) {
  ToyModel model(parameters, 1.0, 0.01);
  host::StepEngine& engine = rank.runtime.configure(model);
  for (int i = 0; i < kStepsOfAllTrials; ++i) {
    std::vector<std::vector<double>> gradients(parameters.size());
    gradients.front().assign(parameters.front().numel, 1.0 / (3.0 + rank.rank) + 0.1 * i);
    rank.step(engine, model, gradients);
  }
  auto weights = model.weights(0);
  rank.runtime.release_model(model);
  return weights;
}

class Autotune : public ::testing::Test {
 protected:
  cohort::testing::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "best.toml";

  ToyJob tuned_job(int world_size) {
    ToyJob job = ddp_job(world_size);
    job.autotune_file = file_;
    return job;
  }
};

class AutotuneOn : public Autotune, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AutotuneOn, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST_P(AutotuneOn, DoesNotChangeABitOfTheResult) {
  std::vector<double> plain, tuned;
  run_ranks(ddp_job(GetParam()), [&](ToyRank& rank) {
    auto weights = train_several(rank, parameters_of_several_sizes());
    if (rank.rank == 0) plain = std::move(weights);
  });
  run_ranks(tuned_job(GetParam()), [&](ToyRank& rank) {
    auto weights = train_several(rank, parameters_of_several_sizes());
    if (rank.rank == 0) tuned = std::move(weights);
  });
  EXPECT_EQ(tuned, plain);
  EXPECT_THAT(content_of(file_), StartsWith("# Found by --autotune: a step takes "));
}

TEST_F(Autotune, TriesWhatTheStrategyOffersAndWritesWhatItUses) {
  ToyJob job = tuned_job(2);
  job.layers = {Spec("tunable").set("tell_at", kStepsOfAllTrials - 1)};
  const auto texts =
      run_ranks_to_failure(job, [](ToyRank& rank) { train_several(rank, parameters_of_several_sizes()); });
  EXPECT_THAT(texts, Each(AnyOf(HasSubstr("way=first after 2 changes"), HasSubstr("way=second after 3 changes"),
                                HasSubstr("way=second after 1 changes"))));
  const bool has_changed = texts[0].find("way=second") != std::string::npos;
  EXPECT_EQ(content_of(file_).find("strategy = \"ddp,way=second\"") != std::string::npos, has_changed);
  EXPECT_EQ(texts[1].find("way=second") != std::string::npos, has_changed);
}

TEST_F(Autotune, LeavesASizeOfTheUsersAlone) {
  ToyJob job = tuned_job(2);
  job.bucket_size = 2u << 20;
  run_ranks(job, [](ToyRank& rank) { train_several(rank, parameters_of_several_sizes()); });
  EXPECT_THAT(content_of(file_), Not(HasSubstr("bucket-size")));
}

TEST_F(Autotune, WritesNothingWhereThereIsNothingToTry) {
  run_ranks(tuned_job(2), [](ToyRank& rank) { train_several(rank, {{"a", 10}, {"b", 10}}); });
  run_ranks(tuned_job(1), [](ToyRank& rank) { train_several(rank, parameters_of_several_sizes()); });
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(Autotune, NamesAFileThatCannotBeWritten) {
  file_ = folder_.path() / "no such folder" / "best.toml";
  const auto texts =
      run_ranks_to_failure(tuned_job(2), [](ToyRank& rank) { train_several(rank, parameters_of_several_sizes()); });
  EXPECT_THAT(texts[0], HasSubstr("--autotune: cannot write " + file_.string()));
}

TEST(ATuningReport, GivesTheFlagsToUseAgain) {
  host::TuningResult result{Spec("bagua", "bytegrad"), 10u << 20, "hierarchical=false", 24ms, 21'340us};
  EXPECT_EQ(host::text_of(result),
            "Autotune: a step takes 21.3 ms, at first 24 ms; next time: --bucket-size=10MiB "
            "--strategy=bagua:bytegrad,hierarchical=false");
  result.bucket_size = 0;
  result.setting.clear();
  EXPECT_EQ(host::text_of(result), "Autotune: the present settings stay; a step takes 21.3 ms, at first 24 ms");
}

}  // namespace
}  // namespace cohort::toy
