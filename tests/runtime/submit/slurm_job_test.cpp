// The job file of SLURM: its text, and what it does when bash runs it with stand-ins for SLURM's programs.
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "scripts.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kInJob = "SLURM_JOB_ID=17";

BatchJob training(std::vector<std::string> arguments = {}) {
  BatchJob job{.command = {"./mnist"}};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  return job;
}

std::string text_of(const BatchJob& job) {
  return SlurmCluster(job).files().front().text;
}

class SlurmJob : public Scripts {};

TEST_F(SlurmJob, OfTwelveNodesIsWrittenLineByLine) {
  SlurmCluster cluster({.command = {"./mnist", "--epochs=10"}, .nodes = 12, .devices = 8});
  cluster.add_directive("ntasks-per-node", "8", "1 task per gpu");
  cluster.load_modules({"NCCL/2.4.7-1-cuda.10.0"});
  cluster.add_command("export NCCL_DEBUG=INFO");
  cluster.add_command("export NCCL_SOCKET_IFNAME=^docker0,lo");
  cluster.add_command("export MASTER_PORT=12910");
  ASSERT_EQ(cluster.files().size(), 1U);
  EXPECT_EQ(cluster.files().front().path, "cohort_jobs/mnist.sbatch");
  EXPECT_EQ(cluster.files().front().text, R"(#!/bin/bash
#SBATCH --job-name=mnist
#SBATCH --nodes=12
#SBATCH --gres=gpu:8
#SBATCH --output=cohort_jobs/mnist-%j.log
#SBATCH --open-mode=append
# 1 task per gpu
#SBATCH --ntasks-per-node=8

: "${SLURM_JOB_ID:?is not set: hand this file in with sbatch, or run it inside salloc}"

log_dir=$PWD/cohort_jobs

module load NCCL/2.4.7-1-cuda.10.0
export NCCL_DEBUG=INFO
export NCCL_SOCKET_IFNAME=^docker0,lo
export MASTER_PORT=12910

# Who knows the job's secret can join it. Only the user can read the file, which is gone with the job.
if [ -z "${COHORT_JOB_SECRET_FILE:-}${COHORT_JOB_SECRET:-}" ]; then
  export COHORT_JOB_SECRET_FILE=$log_dir/.secret-$SLURM_JOB_ID
  trap 'rm -f "$COHORT_JOB_SECRET_FILE"' EXIT
  rm -f "$COHORT_JOB_SECRET_FILE"
  (umask 077 && head -c 32 /dev/urandom | base64 >"$COHORT_JOB_SECRET_FILE") || exit 2
fi

trap : TERM USR1  # the ranks have the signal as well: this shell waits for them
code=0
srun ${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK} --kill-on-bad-exit=0 ./mnist --epochs=10 || code=$?
exit "$code"
)");
}

TEST_F(SlurmJob, AsksForOneTaskAndOneGpuForEachDevice) {
  BatchJob job = training();
  job.devices = 4;
  EXPECT_THAT(text_of(job), AllOf(HasSubstr("--ntasks-per-node=4\n"), HasSubstr("--gres=gpu:4\n")));
  for (const auto& words : {std::vector<std::string>{"--accelerator=cpu"}, {"--accelerator", "cpu"}}) {
    job.command = training(words).command;
    EXPECT_THAT(text_of(job), AllOf(HasSubstr("--ntasks-per-node=4\n"), Not(HasSubstr("gpu"))));
  }
  job.command = training().command;
  job.directives = {{"gpus-per-task", "1"}};
  EXPECT_THAT(text_of(job), AllOf(HasSubstr("--gpus-per-task=1\n"), Not(HasSubstr("--gres"))));
}

TEST_F(SlurmJob, KeepsWhatTheUserSaysOfALine) {
  BatchJob job = training();
  job.directives = {{"output", "all %j.txt", "as the site wants it"}, {"exclusive"}, {"A", "project"}};
  EXPECT_THAT(text_of(job), AllOf(HasSubstr("# as the site wants it\n#SBATCH --output=\"all %j.txt\"\n"
                                            "#SBATCH --exclusive\n#SBATCH -A project\n"),
                                  Not(HasSubstr("cohort_jobs/mnist-%j.log"))));
}

TEST_F(SlurmJob, GivesTheProgramItsArgumentsAsTheyWere) {
  stand_in("srun", "shift; shift; printf '%s\\n' \"$@\"");
  const BatchJob job = training({"a b", "it's", "$HOME", "`id`", "--x=\"y\"", "*", "", "\\n", "é"});
  EXPECT_EQ(run(SlurmCluster(job).files(), kInJob), 0) << read("out");
  EXPECT_EQ(read("out"), "a b\nit's\n$HOME\n`id`\n--x=\"y\"\n*\n\n\\n\né\n");
}

TEST_F(SlurmJob, RunsModulesAndCommandsInTheirOrder) {
  stand_in("srun", "echo $SEEN $MASTER_PORT");
  SlurmCluster cluster(training());
  cluster.add_command("module() { SEEN+=\"$2 \"; export SEEN; }");
  cluster.load_modules({"one"});
  cluster.add_command("SEEN+='two ' MASTER_PORT=4711; export MASTER_PORT");
  cluster.load_modules({"three"});
  EXPECT_EQ(run(cluster.files(), kInJob), 0);
  EXPECT_EQ(read("out"), "one two three 4711\n");
}

TEST_F(SlurmJob, OfSeveralNodesDrawsASecretThatIsGoneInTheEnd) {
  stand_in("srun", "stat -c %a \"$COHORT_JOB_SECRET_FILE\"; wc -c <\"$COHORT_JOB_SECRET_FILE\"; exit 3");
  BatchJob job = training();
  job.nodes = 2;
  job.log_dir = "my jobs";
  job.setup = {"cd bin"};
  EXPECT_EQ(run(SlurmCluster(job).files(), kInJob), 3);
  EXPECT_EQ(read("out"), "600\n45\n");
  EXPECT_FALSE(std::filesystem::exists("my jobs/.secret-17"));
  write("bin/own", "a secret of sixteen bytes");
  EXPECT_EQ(run(SlurmCluster(job).files(), "SLURM_JOB_ID=17 COHORT_JOB_SECRET_FILE=own"), 3);
  EXPECT_EQ(read("out"), "755\n25\n") << "the user's is used";
  EXPECT_TRUE(std::filesystem::exists("bin/own")) << "and stays";
}

TEST_F(SlurmJob, IsQueuedAgainAfterSigusr1AndPreemption) {
  stand_in("scontrol", "echo scontrol $*");
  const BatchJob job = training({"--checkpoint-dir=ckpt"});
  EXPECT_THAT(text_of(job), AllOf(HasSubstr("#SBATCH --signal=USR1@90\n#SBATCH --requeue\n"),
                                  HasSubstr("./mnist --checkpoint-dir=ckpt --resume=auto")));
  for (const int code : {0, 1, 4, 139}) {
    stand_in("srun", "exit " + std::to_string(code));
    EXPECT_EQ(run(SlurmCluster(job).files(), kInJob), code);
    EXPECT_EQ(read("out"), "");
  }
  const std::string trains = "mkdir -p ckpt/step-0000000$1; touch ckpt/step-0000000$1/manifest.json; exit 138";
  stand_in("srun", "set -- 1; " + trains);
  EXPECT_EQ(run(SlurmCluster(job).files(), kInJob), 138);
  EXPECT_EQ(read("out"), "scontrol requeue 17\n");
  // SIGTERM of a user, and of SLURM for other jobs.
  stand_in("srun", "exit 143");
  EXPECT_EQ(run(SlurmCluster(job).files(), kInJob), 143);
  EXPECT_EQ(read("out"), "");
  stand_in("scontrol", "echo scontrol $* >&2; echo 'JobId=17 JobState=RUNNING X=1 PreemptTime=2026-11-26T01:46:10'");
  EXPECT_EQ(run(SlurmCluster(job).files(), kInJob), 143);
  EXPECT_THAT(read("out"), HasSubstr("scontrol requeue 17\n"));
  // One task of an array has the number of the whole.
  run(SlurmCluster(job).files(), "SLURM_JOB_ID=17 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=2");
  EXPECT_THAT(read("out"), HasSubstr("scontrol requeue 17_2\n"));
}

TEST_F(SlurmJob, IsQueuedAgainOnlyIfItHasWrittenACheckpoint) {
  stand_in("scontrol", "echo scontrol $*");
  BatchJob job = training({"--checkpoint-dir=c k"});
  const auto run_with = [&](const std::string& srun, const std::string& variables = kInJob) {
    stand_in("srun", srun + "\nexit 138");
    EXPECT_EQ(run(SlurmCluster(job).files(), variables), 138);
    return read("out");
  };
  EXPECT_THAT(run_with(""), AllOf(Not(HasSubstr("requeue")), HasSubstr("it has written no checkpoint")));
  EXPECT_EQ(run_with("mkdir -p 'c k/step-1'; touch 'c k/step-1/manifest.json'"), "scontrol requeue 17\n");
  EXPECT_THAT(run_with(""), Not(HasSubstr("requeue"))) << "the second job has got no further than the first";
  EXPECT_EQ(run_with("mkdir -p 'c k/step-2'; touch -d '+1 hour' 'c k/step-2/manifest.json'"), "scontrol requeue 17\n");
  job.array = "0-3";
  EXPECT_EQ(run_with("mkdir -p 'c k/trial-2/step-1'; touch 'c k/trial-2/step-1/manifest.json'",
                     "SLURM_JOB_ID=18 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=2"),
            "scontrol requeue 17_2\n");
}

TEST_F(SlurmJob, IsNotQueuedAgainWhereThatWouldLoseOrRepeatWork) {
  BatchJob job = training();
  EXPECT_THAT(SlurmCluster(job).why_not_requeued(), HasSubstr("--checkpoint-dir=DIR"));
  EXPECT_THAT(text_of(job), AllOf(Not(HasSubstr("requeue")), Not(HasSubstr("USR1@"))));
  job = training({"--checkpoint-dir=ckpt", "--resume=other"});
  EXPECT_THAT(SlurmCluster(job).why_not_requeued(), HasSubstr("'other'"));
  EXPECT_THAT(text_of(job), Not(HasSubstr("requeue")));
  job = training({"--checkpoint-dir=ckpt"});
  EXPECT_EQ(SlurmCluster(job).why_not_requeued(), "");
  job.requeue = false;
  EXPECT_EQ(SlurmCluster(job).why_not_requeued(), "");
  EXPECT_THAT(text_of(job), Not(HasSubstr("requeue")));
}

TEST_F(SlurmJob, OfAGridRunsEachCombinationInFoldersOfItsOwn) {
  stand_in("srun", "shift; shift; echo $*");
  BatchJob job = training({"--checkpoint_dir", "c k", "--log-dir=logs", "--seed=1"});
  job.grid = {{"lr", {"0.1", "0.01"}}, {"schedule", {"a b", "c", "d"}}};
  EXPECT_THAT(text_of(job), AllOf(HasSubstr("#SBATCH --array=0-5\n"), HasSubstr("mnist-%A_%a.log\n")));
  const auto run_task = [&](const std::string& task) {
    return run(SlurmCluster(job).files(), "SLURM_JOB_ID=18 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=" + task);
  };
  EXPECT_EQ(run_task("3"), 0);
  EXPECT_EQ(read("out"),
            "--checkpoint_dir c k/trial-3 --log-dir=logs/trial-3 --seed=1 --lr=0.01 --schedule=a b --resume=auto\n");
  EXPECT_EQ(run_task("2"), 0);
  EXPECT_THAT(read("out"), HasSubstr("--lr=0.1 --schedule=d"));
  EXPECT_EQ(run_task("6"), 2);
}

TEST_F(SlurmJob, OfAnArrayHasFilesOfItsOwnForEachTask) {
  stand_in("srun", "shift; shift; echo $*");
  BatchJob job = training({"--summary_json=out.d/s.json", "--profile", "--autotune", "sizes", "--log-dir", "l"});
  job.array = "0-3";
  const auto out = [&] {
    EXPECT_EQ(run(SlurmCluster(job).files(), "SLURM_JOB_ID=18 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=3"), 0);
    return read("out");
  };
  EXPECT_EQ(out(),
            "--summary_json=out.d/s-trial-3.json --profile=cohort_profile-trial-3.json --autotune sizes-trial-3 "
            "--log-dir l/trial-3\n");
  job.command = {"./mnist", "--profile=p 1.json,steps=2", "--autotune", "--lr=0.5"};
  EXPECT_EQ(out(), "--profile=p 1-trial-3.json,steps=2 --autotune=autotune-trial-3.toml --lr=0.5\n");
  write("conf.toml", "lr = 1\ncheckpoint_dir = \"ckpt\"\n[strategy.x]\nlog-dir = 3\n");
  job.command = {"./mnist", "--config=conf.toml"};
  EXPECT_THAT([&] { text_of(job); },
              ::testing::ThrowsMessage<UserError>(
                  AllOf(HasSubstr("all tasks of the array would write to the checkpoint-dir that 'conf.toml' names"),
                        HasSubstr("give --checkpoint-dir behind the program"))));
  job.command.emplace_back("--checkpoint-dir=other");
  EXPECT_THAT(text_of(job), HasSubstr("--checkpoint-dir=other/trial-"));
}

TEST_F(SlurmJob, OutsideOfAnAllocationSaysSo) {
  EXPECT_NE(run(SlurmCluster(training()).files(), "SLURM_JOB_ID="), 0);
  EXPECT_THAT(read("out"), HasSubstr("hand this file in with sbatch"));
}

TEST_F(SlurmJob, RefusesWhatContradictsItself) {
  const auto refused = [](const auto& change, const char* says) {
    BatchJob job = training({"--checkpoint-dir=ckpt"});
    change(job);
    try {
      text_of(job);
      ADD_FAILURE() << says;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  };
  refused([](BatchJob& job) { job.command.clear(); }, "the program is missing");
  refused([](BatchJob& job) { job.nodes = 0; }, "0 nodes are no job");
  refused(
      [](BatchJob& job) {
        job.devices = 8, job.directives = {{"ntasks-per-node", "4"}};
      },
      "'--ntasks-per-node=4' contradicts --devices=8");
  refused([](BatchJob& job) { job.directives = {{"nodes", "2"}}; }, "contradicts --nodes=1");
  refused(
      [](BatchJob& job) {
        job.nodes = 2, job.directives = {{"ntasks", "1"}};
      },
      "contradicts --nodes x --devices=2");
  refused([](BatchJob& job) { job.directives = {{"", "8"}}; }, "is no name of a directive");
  refused([](BatchJob& job) { job.directives = {{"mem", "1\n#SBATCH --uid=0"}}; }, "control character");
  refused([](BatchJob& job) { job.directives = {{"comment", "\"x"}}; }, "holds a quote");
  refused([](BatchJob& job) { job.setup = {"export A=1\nrm -r x"}; }, "control character");
  refused([](BatchJob& job) { job.command.emplace_back("a\nb"); }, "control character");
  refused([](BatchJob& job) { job.name = "a/b"; }, "cannot be called");
  refused([](BatchJob& job) { job.array = "0..9"; }, "no list of indices");
  refused([](BatchJob& job) { job.grid = {{"lr", {}}}; }, "values for --lr");
  refused([](BatchJob& job) { job.grid = {{"lr", {"1", "1"}}}; }, "values for --lr");
  refused([](BatchJob& job) { job.grid = {{"lr", {"1"}}, {"lr", {"2"}}}; }, "--lr twice");
  refused([](BatchJob& job) { job.grid = {{"batch-size", {"1"}}, {"batch_size", {"2"}}}; }, "--batch_size twice");
  refused(
      [](BatchJob& job) {
        job.grid = {{"max_steps", {"1"}}}, job.command.emplace_back("--max-steps=2");
      },
      "leave one out");
  refused([](BatchJob& job) { job.grid = {{"l r", {"1"}}}; }, "the flag 'l r'");
  for (const char* empty : {"--checkpoint-dir=", "--log_dir=", "--summary-json=", "--profile="}) {
    refused([&](BatchJob& job) { job.command = {"./mnist", empty}; }, "give one, or leave the flag out");
  }
  refused([](BatchJob& job) { job.grid = {{"lr", {"1"}}}, job.array = "0-3"; }, "leave --array out");
  refused([](BatchJob& job) { job.grid = {{"lr", {"1"}}}, job.command.emplace_back("--lr=2"); }, "leave one out");
  refused([](BatchJob& job) { job.time_limit = std::chrono::seconds(60); }, "no time to train");
}

}  // namespace
}  // namespace cohort
