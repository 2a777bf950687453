// The world of one rank: the same operations as with several, and lanes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::vector<std::string> errors_alone(const char* does) {
  ToyJob job = ddp_job(1);
  job.collective = {};
  job.layers = {Spec("services").set("does", does).set("at", -1)};
  return run_ranks_to_failure(job, [](ToyRank& rank) {
    ToyModel model({{"a", 3}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int step = 0; step < 3; ++step) rank.step(engine, model, std::vector<std::vector<double>>{{1, 2, 4}});
    EXPECT_EQ(model.weights(0), (std::vector<double>{-3, -6, -12}));
    rank.runtime.release_model(model);
  });
}

TEST(OneRank, HasAWorldWithEveryOperation) {
  EXPECT_THAT(errors_alone("operations"), Each(""));
}

TEST(OneRank, HasTheDefaultLaneAndLanesOfItsOwn) {
  EXPECT_THAT(errors_alone("lane"), Each(""));
}

TEST(OneRank, CannotSendToItselfWhatItDoesNotReceive) {
  EXPECT_THAT(errors_alone("lost_message"), Each(HasSubstr("a rank receives what it sends itself")));
}

}  // namespace
}  // namespace cohort::toy
