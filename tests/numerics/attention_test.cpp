#include "attention.hpp"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

namespace numerics {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Attention, FusedLeavesTheChoiceToLibTorch) {
  choose_attention("fused");
  EXPECT_TRUE(at::globalContext().userEnabledFlashSDP());
  EXPECT_TRUE(at::globalContext().userEnabledMemEfficientSDP());
  EXPECT_TRUE(at::globalContext().userEnabledCuDNNSDP());
}

TEST(Attention, MathLeavesNoOtherKernel) {
  choose_attention("math");
  EXPECT_TRUE(at::globalContext().userEnabledMathSDP());
  EXPECT_FALSE(at::globalContext().userEnabledFlashSDP());
  EXPECT_FALSE(at::globalContext().userEnabledMemEfficientSDP());
  EXPECT_FALSE(at::globalContext().userEnabledCuDNNSDP());
}

TEST(Attention, UnknownKindIsRefused) {
  EXPECT_THAT([] { choose_attention("maths"); }, ThrowsMessage<cohort::UserError>(HasSubstr("choose fused or math")));
}

}  // namespace
}  // namespace numerics
