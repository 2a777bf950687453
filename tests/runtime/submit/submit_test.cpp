// Handing jobs in, to stand-ins for sbatch and qsub that note what they are given.
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "scripts.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;

class Submit : public Scripts {
 protected:
  Submit() { write("mnist", "#!/bin/bash\n"); }
};

TEST_F(Submit, GivesTheFileToSbatchAndReturnsTheNumber) {
  stand_in("sbatch", "echo \"$@\" >given; echo '4711;cluster'");
  const Submission submission = SlurmCluster({.command = {"./mnist"}}).submit();
  EXPECT_EQ(submission.number, "4711");
  EXPECT_EQ(read("given"), "--parsable cohort_jobs/mnist.sbatch\n");
  EXPECT_EQ(read("cohort_jobs/mnist.sbatch"), submission.files.front().text);
}

TEST_F(Submit, NeverWritesOverTheFilesOfAnotherJob) {
  stand_in("qsub", "echo 1.server");
  const PbsCluster cluster({.command = {"./mnist"}});
  write("cohort_jobs/mnist-2.sh", "the user's own");
  EXPECT_EQ(cluster.submit().number, "1.server");
  const Submission second = cluster.submit();
  EXPECT_EQ(second.files[0].path, "cohort_jobs/mnist-3.pbs");
  EXPECT_EQ(second.files[1].path, "cohort_jobs/mnist-3.sh");
  EXPECT_THAT(read("cohort_jobs/mnist-3.pbs"), HasSubstr("bash cohort_jobs/mnist-3.sh"));
  EXPECT_EQ(read("cohort_jobs/mnist-2.sh"), "the user's own");
  EXPECT_FALSE(std::filesystem::exists("cohort_jobs/mnist-2.pbs"));
  EXPECT_THAT(read("cohort_jobs/mnist.pbs"), HasSubstr("bash cohort_jobs/mnist.sh"));
}

TEST_F(Submit, LeavesNothingWhereTheSchedulerRefuses) {
  stand_in("sbatch", "exit 1");
  EXPECT_THROW(SlurmCluster({.command = {"./mnist"}}).submit(), UserError);
  EXPECT_TRUE(std::filesystem::is_empty("cohort_jobs"));
}

TEST_F(Submit, RefusesAMissingProgramAndAMissingScheduler) {
  ::setenv("PATH", (folder_ / "bin").c_str(), 1);
  EXPECT_THROW(SlurmCluster({.command = {"./other"}}).submit(), UserError);
  try {
    PbsCluster({.command = {"./mnist"}}).submit();
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no qsub in PATH"));
  }
  EXPECT_FALSE(std::filesystem::exists("cohort_jobs"));
}

}  // namespace
}  // namespace cohort
