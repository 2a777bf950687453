// The control plane of jobs that are wider than a test machine could start: what passes rank 0's store stays in
// proportion to the number of ranks, and all ranks say why the job has failed.
#include "wide_job.hpp"

#include <gmock/gmock.h>

namespace cohort {
namespace {

using test::StoreTraffic;
using test::WideJob;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

WideJob job_of(int ranks) {
  const WideJob job = test::run_wide_job(ranks, {COHORT_TEST_PLUGINS, TEST_PLUGIN_FOLDER});
  EXPECT_THAT(job.sentences, ::testing::SizeIs(ranks));
  EXPECT_THAT(job.sentences, Each(HasSubstr("no such file 'data'")));
  EXPECT_THAT(job.sentences[2], AllOf(HasSubstr("rank 1 (pid "), HasSubstr("; seen here as: step 2")));
  for (const test::Phase& phase : {job.agreement, job.votes}) {
    EXPECT_EQ(phase.traffic.requests, 0U) << "settings and votes go over the collective";
  }
  return job;
}

void expect_in_proportion(int ranks, const StoreTraffic& traffic, int more_ranks, const StoreTraffic& more) {
  const auto of_each = [](uint64_t count, int of) { return static_cast<double>(count) / (of - 1); };
  EXPECT_LE(of_each(more.requests, more_ranks), 1.2 * of_each(traffic.requests, ranks));
  EXPECT_LE(of_each(more.bytes, more_ranks), 1.2 * of_each(traffic.bytes, ranks));
}

void expect_linear_traffic(int ranks, int more_ranks) {
  const WideJob job = job_of(ranks), wider = job_of(more_ranks);
  expect_in_proportion(ranks, job.start.traffic, more_ranks, wider.start.traffic);
  expect_in_proportion(ranks, job.failure.traffic, more_ranks, wider.failure.traffic);
}

TEST(WideJob, CostsTheStoreTheSameForEachRank) {
  expect_linear_traffic(80, 160);
}

TEST(WideJobInFull, CostsTheStoreTheSameForEachOfAThousandRanks) {
  expect_linear_traffic(256, 1024);
}

}  // namespace
}  // namespace cohort
