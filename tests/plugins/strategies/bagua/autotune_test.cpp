// --autotune under bagua: on several nodes of several ranks it also tries without the hierarchy.
#include <fstream>
#include <sstream>

#include "job.hpp"
#include "temporary_folder.hpp"

namespace {

using namespace cohort::test;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kStepsOfATrial = 25;

/// What is written after a training, whose ranks end equal.
std::string found(const Training& training) {
  const cohort::testing::TemporaryFolder folder;
  cohort::toy::ToyJob job = job_of(training);
  job.autotune_file = folder.path() / "best.toml";
  ByRank ends(static_cast<size_t>(training.ranks));
  cohort::toy::run_ranks(job, [&](cohort::toy::ToyRank& rank) {
    Trainee trainee(rank, training);
    trainee.steps(0, kStepsOfATrial);
    ends[static_cast<size_t>(rank.rank)] = trainee.finish();
  });
  for (const Flat& own : ends) EXPECT_EQ(difference(own, ends[0]), "");
  std::ostringstream text;
  text << std::ifstream(*job.autotune_file).rdbuf();
  return text.str();
}

TEST(BaguaAutotune, TriesWithoutTheHierarchyWhereItWasNotAskedFor) {
  for (const char* algorithm : {"gradient_allreduce", "bytegrad"}) {
    const std::string text = found({.algorithm = algorithm, .ranks = 4, .nodes = 2});
    EXPECT_THAT(text, HasSubstr("Found by --autotune")) << algorithm;
    EXPECT_THAT(text, AnyOf(Not(HasSubstr("strategy")),
                            HasSubstr(std::string("strategy = \"bagua:") + algorithm + ",hierarchical=false\"")));
  }
}

TEST(BaguaAutotune, LeavesAloneWhatTheUserHasSaidAndWhatWouldBeginAnew) {
  EXPECT_THAT(found({.algorithm = "bytegrad,hierarchical=true", .ranks = 4, .nodes = 2}), IsEmpty());
  EXPECT_THAT(found({.algorithm = "low_precision_decentralized", .ranks = 4, .nodes = 2}), IsEmpty());
  EXPECT_THAT(found({.algorithm = "bytegrad", .ranks = 2, .nodes = 1}), IsEmpty());
}

}  // namespace
