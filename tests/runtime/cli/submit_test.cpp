// `cohort submit` as a user runs it.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli.hpp"

namespace cohort::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SubmitTest : public Cli {
 protected:
  Outcome dry_run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"submit", "slurm", "--dry-run"});
    arguments.insert(arguments.end(), {"--", "/bin/true", "--dry-run"});
    return cohort(arguments);
  }
  std::string refusal(const std::vector<std::string>& arguments) const {
    const Outcome outcome = dry_run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    return outcome.err;
  }
};

TEST_F(SubmitTest, PrintsAJobWithLinesInTheirOrder) {
  const Outcome outcome =
      dry_run({"--nodes=12", "--devices", "8", "--time=36h", "--partition=gpu", "--no-requeue", "--command=export A=1",
               "--module=NCCL", "--command", "export B=2", "--directive=ntasks-per-node=8 # 1 task per gpu"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("#SBATCH --nodes=12\n#SBATCH --gres=gpu:8\n#SBATCH --time=1-12:00:00\n"
                                           "#SBATCH --partition=gpu\n"),
                                 HasSubstr("# 1 task per gpu\n#SBATCH --ntasks-per-node=8\n"),
                                 HasSubstr("export A=1\nmodule load NCCL\nexport B=2\n"),
                                 HasSubstr("/bin/true --dry-run || code=$?\n")));
  EXPECT_EQ(std::filesystem::exists(folder_ / "cohort_jobs"), false);
}

TEST_F(SubmitTest, ReadsTimesAsSlurmAndCohortWriteThem) {
  for (const char* time : {"90m", "01:30:00", "5400s", "0-01:30:00"}) {
    EXPECT_THAT(dry_run({std::string("--time=") + time}).out, HasSubstr("#SBATCH --time=01:30:00\n")) << time;
  }
  for (const char* time : {"90", "1:30", "x", "01:60:00", "-1:00:00", "0s", "1-", "::"}) {
    EXPECT_THAT(refusal({std::string("--time=") + time}), HasSubstr("--time")) << time;
  }
}

TEST_F(SubmitTest, PrintsJson) {
  const Outcome outcome = cohort({"submit", "pbs", "--dry-run", "--json", "/bin/true"});
  const json printed = json::parse(outcome.out);
  EXPECT_EQ(printed["scheduler"], "pbs");
  EXPECT_EQ(printed["files"][1]["path"], "cohort_jobs/true.sh");
  EXPECT_THAT(printed["files"][1]["text"], HasSubstr(std::string(COHORT_COMMAND) + " run -H"));
}

TEST_F(SubmitTest, TellsTheNumberOfTheJob) {
  std::filesystem::create_directory(folder_ / "bin");
  const std::filesystem::path sbatch = folder_ / "bin/sbatch";
  std::ofstream(sbatch) << "#!/bin/sh\necho 12\n";
  std::filesystem::permissions(sbatch, std::filesystem::perms::owner_all);
  const std::map<std::string, std::string> variables{{"PATH", (folder_ / "bin").string() + ":/usr/bin:/bin"}};
  const Outcome outcome = cohort({"submit", "slurm", "--no-requeue", "true"}, variables);
  EXPECT_EQ(outcome.out, "Submitted job 12: cohort_jobs/true.sbatch\n") << outcome.err;
  EXPECT_EQ(json::parse(cohort({"submit", "slurm", "--no-requeue", "--json", "true"}, variables).out)["job"], "12");
}

TEST_F(SubmitTest, MistakesGiveExitCodeTwoAndTheWayOut) {
  EXPECT_THAT(cohort({"submit", "lsf", "--dry-run", "/bin/true"}).err, HasSubstr("'lsf'"));
  EXPECT_THAT(cohort({"submit", "slurm", "--dry-run"}).err, HasSubstr("the program is missing"));
  EXPECT_THAT(cohort({"submit", "slurm", "--dry-run", "./none"}).err, HasSubstr("./none"));
  EXPECT_THAT(cohort({"submit", "slurm", "/bin/true"}, {{"PATH", "/nowhere"}}).err, HasSubstr("no sbatch in PATH"));
  EXPECT_EQ(cohort({"submit"}).code, 2);
  EXPECT_THAT(refusal({"--devices=8", "--directive=ntasks-per-node=4"}), HasSubstr("contradicts --devices=8"));
  EXPECT_THAT(refusal({"--directive==8"}), HasSubstr("is no name of a directive"));
  EXPECT_THAT(refusal({"--grid=lr"}), HasSubstr("--grid=lr=0.1,0.01"));
  EXPECT_THAT(refusal({"--grid=lr=1,,2"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"--nodes=0"}), HasSubstr("--nodes"));
  EXPECT_THAT(refusal({"--command=a\nb"}), HasSubstr("control character"));
}

}  // namespace
}  // namespace cohort::cli
