// Several micro-batches in one optimizer step: they add up before the ranks talk.
#include <cmath>

#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

constexpr int kMicroBatches = 3, kWindows = 4;
constexpr uint32_t kEarly = 3, kNowAndThen = 4;  // of small_net: reached by the first micro-batch alone; by some ranks'

// Sums of up to three multiples of 1/8 are exact, so that adding up first changes nothing.
Backward in_pieces(const Net& net, const Shape& shape) {
  return backward_of(net, shape, [](const Turn& turn, uint32_t, uint32_t parameter) {
    if (parameter == kEarly) return turn.micro == 0;
    return parameter != kNowAndThen || (turn.rank + turn.micro) % 2 == 0;
  });
}

Backward as_a_whole(const Backward& pieces) {
  return [pieces](const Turn& turn) {
    Gradients whole = pieces({turn.rank, turn.step, 0});
    for (int micro = 1; micro < kMicroBatches; ++micro) {
      const Gradients part = pieces({turn.rank, turn.step, micro});
      for (size_t i = 0; i < part.size(); ++i) {
        if (whole[i].empty()) whole[i].resize(part[i].size());
        for (size_t k = 0; k < part[i].size(); ++k) whole[i][k] += part[i][k];
      }
    }
    return whole;
  };
}

void accumulate(Trainee& trainee, const Backward& pieces) {
  for (int step = 0; step < kWindows; ++step) {
    for (int micro = 0; micro < kMicroBatches; ++micro) {
      trainee.backward(pieces, {0, step, micro}, micro == kMicroBatches - 1);
    }
    trainee.update();
  }
}

COHORT_ON_SHAPES(MicroBatches, all_shapes());

TEST_P(MicroBatches, GiveWhatTheirSumGives) {
  COHORT_NEEDS_EQUAL_RESULTS();
  Net net = small_net();
  net.momentum = 0.5;
  const Backward pieces = in_pieces(net, shape());
  const auto whole = trained(shape(), net, as_a_whole(pieces), kWindows);
  const auto added = weights_of(shape(), net, [&](Trainee& trainee) {
    accumulate(trainee, pieces);
    require(trainee.engine().steps() == kWindows, "micro-batches were counted as steps");
    return trainee.finish();
  });
  expect_equal(net, added);
  for (size_t parameter = 0; parameter < net.parameters.size(); ++parameter) {
    for (size_t i = 0; i < net.parameters[parameter].numel; ++i) {
      const double wanted = whole[0][parameter][i];
      ASSERT_NEAR(added[0][parameter][i], wanted, 1e-5 * (1 + std::abs(wanted))) << net.parameters[parameter].name;
    }
  }
}

TEST_P(MicroBatches, AreSentOnce) {
  COHORT_NEEDS_EQUAL_RESULTS();
  const Net net = small_net();
  const auto sent_by = [&](const std::function<void(Trainee&)>& train) {
    std::vector<uint64_t> sent(static_cast<size_t>(shape().ranks));
    on_ranks(shape(), net, [&](Trainee& trainee) {
      train(trainee);
      sent[static_cast<size_t>(trainee.rank())] = trainee.runtime().bytes_sent();
    });
    return sent;
  };
  const Backward pieces = in_pieces(net, shape());
  const auto in_one = sent_by([&](Trainee& trainee) { trainee.steps(as_a_whole(pieces), 0, kWindows); });
  const auto in_several = sent_by([&](Trainee& trainee) { accumulate(trainee, pieces); });
  // The figure of each bucket is rounded, and buckets follow the order in which gradients arrive.
  const double rounding = kWindows * static_cast<double>(net.parameters.size());
  for (size_t rank = 0; rank < in_one.size(); ++rank) {
    EXPECT_NEAR(static_cast<double>(in_several[rank]), static_cast<double>(in_one[rank]), rounding) << "rank " << rank;
  }
}

}  // namespace
