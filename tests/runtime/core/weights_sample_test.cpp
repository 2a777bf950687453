#include "session/weights_sample.hpp"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

namespace cohort {
namespace {

using ::testing::HasSubstr;

struct Net : torch::nn::Module {
  explicit Net(int64_t width)
      : wide(register_module("wide", torch::nn::Linear(width, width))),
        narrow(register_module("narrow", torch::nn::Linear(3, 2))) {}
  torch::nn::Linear wide, narrow;
};

void change(const at::Tensor& tensor, double by) {
  const at::NoGradGuard no_grad;
  tensor.add_(by);
}

TEST(WeightsSample, IsTheSameForTheSameWeightsAndStep) {
  const Net net(200);
  EXPECT_EQ(hash_of(weights_sample(net, 7)), hash_of(weights_sample(net, 7)));
  EXPECT_EQ(weights_sample(net, 7).size(), 4u);
}

TEST(WeightsSample, SeesOneBitOfASmallParameter) {
  const Net net(200);
  const auto before = weights_sample(net, 0);
  change(net.narrow->weight[1][2], 1e-6);
  EXPECT_NE(hash_of(weights_sample(net, 0)), hash_of(before));
}

TEST(WeightsSample, SeesALargeParameterThatMovesAsAWhole) {
  const Net net(200);
  const auto before = weights_sample(net, 0);
  change(net.wide->weight, 1e-3);
  EXPECT_NE(weights_sample(net, 0)[0], before[0]);
  EXPECT_EQ(weights_sample(net, 0)[1], before[1]);
}

TEST(WeightsSample, TellsWhichRanksDifferAndWhere) {
  Net net(8);
  const auto own = weights_sample(net, 0);
  const std::string same = to_text(own);
  change(net.narrow->bias, 1);
  const std::vector<std::string> texts{same, same, to_text(weights_sample(net, 0)), "no numbers"};
  const std::string found = first_difference(own, texts);
  EXPECT_THAT(found, HasSubstr("rank 2, 3 from rank 0 in 4 of 4 parameters"));
  EXPECT_THAT(first_difference(own, std::span(texts).first(3)),
              HasSubstr("rank 2 from rank 0 in 1 of 4 parameters, first in 'narrow.bias'"));
}

}  // namespace
}  // namespace cohort
