// A layer that changes the timeout in init_dist_connection changes that of the host's own waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/rank_store.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ToyJob job_of(int world_size, const char* does, int seconds) {
  ToyJob job = ddp_job(world_size);
  job.layers = {Spec("services").set("does", does).set("at", seconds)};
  return job;
}

TEST(AnEditedTimeout, EndsTheWaitForAllRanks) {
  const auto texts = run_ranks_to_failure(job_of(2, "leave", 1), [](ToyRank&) { FAIL() << "a rank is missing"; });
  EXPECT_THAT(texts[0], HasSubstr("waited 1 s"));
  EXPECT_THAT(texts[1], HasSubstr("it leaves"));
}

TEST(AnEditedTimeout, MayBeBeyondTheWaitForAllRanks) {
  ToyJob job = job_of(2, "leave", 100);
  job.timeout = std::chrono::seconds(1);
  const auto texts = run_ranks_to_failure(job, [](ToyRank&) { FAIL() << "a rank is missing"; });
  EXPECT_THAT(texts[0], HasSubstr("waited 1 s")) << "as long as ranks wait for all of them at most";
}

TEST(AnEditedTimeout, IsThatOfLaterAgreements) {
  run_ranks(job_of(2, "timeout", 70), [](ToyRank& rank) {
    EXPECT_EQ(rank.runtime.store().next_agreement("weather").timeout, std::chrono::seconds(70));
  });
}

TEST(AnEditedTimeout, IsAboveZeroAndBelowTheClocksEnd) {
  for (const int ranks : {1, 2}) {
    for (const int seconds : {0, 2'000'000'000}) {
      const auto texts =
          run_ranks_to_failure(job_of(ranks, "timeout", seconds), [](ToyRank&) { FAIL() << "it was taken"; });
      EXPECT_THAT(texts, Each(HasSubstr("give one above 0, and ten years at most")));
    }
  }
}

}  // namespace
}  // namespace cohort::toy
