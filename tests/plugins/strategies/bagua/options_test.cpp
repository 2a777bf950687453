// What bagua refuses, each in a sentence.
#include "job.hpp"

namespace {

using namespace cohort::test;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(const std::string& algorithm, int ranks = 2) {
  return failure_of({.algorithm = algorithm, .ranks = ranks, .steps = 1});
}

TEST(BaguaOptions, ThatBelongToAnotherAlgorithmAreRefusedWithItsName) {
  EXPECT_THAT(refusal_of("bytegrad,communication_interval=2"),
              AllOf(HasSubstr("with the variant 'bytegrad' has no option 'communication_interval'"),
                    HasSubstr("decentralized")));
  EXPECT_THAT(refusal_of("gradient_allreduce,warmup_steps=3"), AllOf(HasSubstr("warmup_steps"), HasSubstr("qadam")));
  EXPECT_THAT(refusal_of("low_precision_decentralized,average=false"),
              AllOf(HasSubstr("average"), HasSubstr("bytegrad")));
  EXPECT_THAT(refusal_of("gradient_allreduce,sync_interval_ms=5"), HasSubstr("async"));
  EXPECT_THAT(refusal_of("bytegrad,check_replicas_every=1"),
              AllOf(HasSubstr("check_replicas_every"), HasSubstr("low_precision_decentralized")));
}

TEST(BaguaOptions, IntervalsAreAboveZero) {
  for (const char* value : {"0", "-1", "x", "1.5"}) {
    EXPECT_THAT(refusal_of("low_precision_decentralized,communication_interval=" + std::string(value)),
                AllOf(HasSubstr("communication_interval"), HasSubstr(value)));
  }
}

TEST(BaguaOptions, OfAnUnknownAlgorithmNameTheKnownOnes) {
  EXPECT_THAT(refusal_of("bitegrad"), AllOf(HasSubstr("bitegrad"), HasSubstr("bytegrad")));
}

}  // namespace
