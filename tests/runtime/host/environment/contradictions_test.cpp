#include <string>
#include <utility>

#include <gmock/gmock.h>

#include <cohort/host/environment.hpp>

#include "variables.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

Variables both(Variables first, Variables second) {
  first.merge(second);
  return first;
}

TEST(Contradictions, NameBothVariables) {
  const std::pair<Variables, std::pair<const char*, const char*>> cases[] = {
      {both(jsrun_task(1, 2, 1, 2), {}), {"", ""}},
      {with(jsrun_task(1, 2, 1, 2), "OMPI_COMM_WORLD_SIZE", "3"), {"OMPI_COMM_WORLD_SIZE=3", "JSM_NAMESPACE_SIZE=2"}},
      {with(jsrun_task(1, 2, 1, 2), "OMPI_COMM_WORLD_RANK", "0"), {"OMPI_COMM_WORLD_RANK=0", "JSM_NAMESPACE_RANK=1"}},
      {both(hydra_rank(1, 3, 1, 3), mpi_rank(1, 2, 1, 2)), {"PMI_SIZE=3", "OMPI_COMM_WORLD_SIZE=2"}},
      {both(torchrun_rank(), hydra_rank(1, 3, 1, 3)), {"PMI_SIZE=3", "WORLD_SIZE=4"}},
      {both(srun_task(1, 2, 1, 0, 1), {{"PMI_SIZE", "4"}}), {"PMI_SIZE=4", "SLURM_STEP_NUM_TASKS=2"}},
      {both(mpi_rank(0, 4, 0, 4), srun_task(1, 2, 1, 0, 1)), {"SLURM_STEP_NUM_TASKS=2", "OMPI_COMM_WORLD_SIZE=4"}},
      {with(hydra_rank(1, 2, 1, 2), "WORLD_SIZE", "4"), {"WORLD_SIZE=4", "PMI_SIZE=2"}},
      {with(hydra_rank(1, 2, 1, 2), "RANK", "0"), {"RANK=0", "PMI_RANK=1"}},
  };
  for (const auto& [variables, named] : cases) {
    if (*named.first == '\0') {
      EXPECT_EQ(refusal(variables), "nothing was thrown");
    } else {
      EXPECT_THAT(refusal(variables), AllOf(HasSubstr(named.first), HasSubstr(named.second), HasSubstr("unset one")));
    }
  }
}

TEST(Contradictions, ALauncherMayHaveStartedAnother) {
  for (const Variables& variables : {
           both(cohort_rank(), hydra_rank(1, 2, 0, 1)),             // on each node
           both(torchrun_rank(), hydra_rank(0, 1, 0, 1)),           // once
           both(mpi_rank(2, 4, 0, 2), srun_task(1, 2, 0, 1, 2)),    // mpirun starts its daemons by srun
           both(hydra_rank(4, 6, 0, 2), srun_task(1, 2, 0, 1, 2)),  // but for the node where it is
           both(cohort_rank(), srun_task(1, 3, 1, 0, 1)),           // a training of its own
           both(srun_task(1, 2, 1, 0, 1), {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
       }) {
    EXPECT_EQ(refusal(variables), "nothing was thrown");
  }
}

TEST(EnvironmentReport, ShowsEachLauncherThatIsFound) {
  const EnvironmentReport report = inspect_environment(both(cohort_rank(), srun_task(1, 2, 1, 0, 1)));
  EXPECT_THAT(report.found, ElementsAre("cohort run by COHORT_RUN_ID=00ff", "environment variables by RANK=3",
                                        "srun by SLURM_PROCID=1"));
  EXPECT_EQ(report.topology.rank, 3);
  EXPECT_THAT(report.problems, IsEmpty());
}

TEST(EnvironmentReport, GoesOnAfterAMistake) {
  Variables variables = with(with(cohort_rank(), "LOCAL_RANK", "x"), "MASTER_PORT", "0");
  variables.insert({{"PMI_SIZE", "7"}, {"PMI_RANK", "1"}});
  const EnvironmentReport report = inspect_environment(variables);
  EXPECT_EQ(report.topology.rank, 3);
  EXPECT_EQ(report.topology.world_size, 4);
  EXPECT_THAT(report.problems,
              ElementsAre(HasSubstr("LOCAL_RANK=x"), HasSubstr("MASTER_PORT=0"), HasSubstr("PMI_SIZE=7")));
}

TEST(EnvironmentReport, BeginsWithWhatProgramsSay) {
  for (const Variables& variables :
       {with(cohort_rank(), "RANK", "4"), without(torchrun_rank(), "GROUP_RANK"), with(cohort_rank(), "RANK", "a\nb"),
        with(torchrun_rank(), "TORCHELASTIC_RUN_ID", "\x1b"), with(pod(1, 2), "RANK", "0"),
        with(hydra_rank(1, 2, 1, 2), "WORLD_SIZE", "4"), Variables{{"RANK", "1"}}}) {
    const EnvironmentReport report = inspect_environment(variables);
    ASSERT_FALSE(report.problems.empty());
    EXPECT_EQ(report.problems.front(), refusal(variables));
  }
}

TEST(EnvironmentReport, HasTheVariablesOfLibraries) {
  const EnvironmentReport report =
      inspect_environment({{"NCCL_DEBUG", "INFO"}, {"GLOO_SOCKET_IFNAME", "eth0"}, {"XNCCL_", "1"}, {"NCCL", "1"}});
  EXPECT_THAT(report.of_libraries, SizeIs(2));
  EXPECT_THAT(report.of_libraries, Contains(Pair("GLOO_SOCKET_IFNAME", "eth0")));
}

}  // namespace
}  // namespace cohort::host
