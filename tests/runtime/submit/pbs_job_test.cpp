// The files of a PBS job: their text, and what they do when bash runs them with a stand-in for the cohort command.
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "scripts.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PbsJob : public Scripts {
 protected:
  /// Two nodes with four GPUs each, as the example of PBS that users know.
  static PbsCluster cluster(BatchJob job) {
    job.nodes = 2;
    job.devices = 4;
    PbsCluster cluster(std::move(job));
    cluster.load_modules({"nccl"});
    cluster.add_command("export NCCL_DEBUG=INFO");
    return cluster;
  }
};

TEST_F(PbsJob, OfTwoNodesIsWrittenLineByLine) {
  const auto files =
      cluster({.command = {"./mnist", "--epochs=10"}, .time_limit = std::chrono::hours(30), .partition = "gpu"})
          .files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "cohort_jobs/mnist.pbs");
  EXPECT_EQ(files[0].text, R"(#!/bin/bash
#PBS -N mnist
#PBS -l select=2:ncpus=4:mpiprocs=4:ngpus=4
#PBS -l place=scatter
#PBS -l walltime=30:00:00
#PBS -q gpu
#PBS -j oe
#PBS -o cohort_jobs/
#PBS -r n

cd "${PBS_O_WORKDIR:-.}" || exit 2

exec bash cohort_jobs/mnist.sh ./mnist --epochs=10
)");
  EXPECT_EQ(files[1].path, "cohort_jobs/mnist.sh");
  EXPECT_EQ(files[1].text, R"sh(#!/bin/bash
# Starts PROGRAM [ARGUMENT...] once for each device of the nodes of a PBS job, and passes through here on each.
address=${MASTER_ADDR:-} port=${MASTER_PORT:-}

module load nccl
export NCCL_DEBUG=INFO

if [ -n "${COHORT_RUN_ID:-}" ]; then  # a rank: where it meets the others has been decided
  export MASTER_ADDR=$address MASTER_PORT=$port
  exec "$@"
fi
: "${PBS_NODEFILE:?is not set: hand in the file beside this one with qsub, or run it inside qsub -I}"
hosts=$(awk '!seen[$1]++ { printf "%s%s:4", separator, $1; separator = "," }' "$PBS_NODEFILE") || exit 2
exec cohort run -H "$hosts" "$BASH" "$(realpath "$0")" "$@"
)sh");
}

TEST_F(PbsJob, StartsTheRanksOnTheHostsOfItsFile) {
  stand_in("cohort", "echo $1 $2 $3; shift 3; MASTER_PORT=7 MASTER_ADDR=b COHORT_RUN_ID=1 \"$@\"");
  write("nodes", "b\nb\nb\nb\na\na\na\na\n");
  write("mnist", "#!/bin/bash\necho \"$NCCL_DEBUG $MASTER_ADDR:$MASTER_PORT\"; printf '<%s>' \"$@\"\n");
  PbsCluster job = cluster({.command = {"./mnist", "a b", "$x"}, .log_dir = "my jobs"});
  job.add_command("module() { :; }; export MASTER_PORT=$RANDOM");
  EXPECT_EQ(run(job.files(), "PBS_NODEFILE=nodes"), 0) << read("out");
  EXPECT_THAT(read("out"), AllOf(HasSubstr("run -H b:4,a:4\n"), HasSubstr("INFO b:7\n<a b><$x>")));
}

TEST_F(PbsJob, TakesTheUsersLinesForItsOwn) {
  BatchJob job{.command = {"./mnist", "--accelerator=cpu", "--checkpoint-dir=ckpt"}};
  job.directives = {{"l", "select=2:ncpus=64", "whole nodes"}, {"l", "mem=16gb"}, {"W", "group_list=x"}};
  EXPECT_THAT(cluster(job).files()[0].text,
              AllOf(HasSubstr("# whole nodes\n#PBS -l select=2:ncpus=64\n#PBS -l mem=16gb\n#PBS -W group_list=x\n"),
                    HasSubstr("#PBS -l place=scatter\n"), Not(HasSubstr("gpu")), HasSubstr("#PBS -r y\n"),
                    HasSubstr("--checkpoint-dir=ckpt --resume=auto\n")));
  job.directives = {{"mem", "16gb"}};
  EXPECT_THROW(cluster(job).files(), UserError);
}

TEST_F(PbsJob, OfAGridIsAnArray) {
  BatchJob job{.command = {"./mnist"}};
  job.grid = {{"lr", {"1", "2"}}};
  const auto files = cluster(job).files();
  EXPECT_THAT(files[0].text, AllOf(HasSubstr("#PBS -J 0-1\n"), HasSubstr("case \"$PBS_ARRAY_INDEX\" in\n")));
  job.grid = {{"lr", {"1"}}};
  EXPECT_THAT(cluster(job).files()[0].text, HasSubstr("#PBS -J 0-1:2\n"));
}

}  // namespace
}  // namespace cohort
