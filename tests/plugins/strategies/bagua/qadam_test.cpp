// qadam: Adam at first, then the compressed momentum, against a simulator of both.
#include <cmath>

#include "job.hpp"

namespace {

using namespace cohort::test;
using namespace cohort;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kLearningRate = 0.01;

Training qadam(const std::string& options, int ranks, const std::string& kind = "adam", double weight_decay = 0) {
  Training training{.algorithm = "qadam" + options, .ranks = ranks, .steps = 9, .learning_rate = kLearningRate};
  training.optimizer.kind = kind;
  training.optimizer.weight_decay = weight_decay;
  return training;
}

/// All of it equal on all ranks.
struct Adam {
  Flat weights, momentum, square;
  int step = 0;
};

/// As the toy model does it: in double, what is kept is float.
void warm_up_step(Adam& adam, const Flat& gradient, const Training& training) {
  const toy::ToyOptimizer& o = training.optimizer;
  const double t = ++adam.step;
  for (size_t i = 0; i < gradient.size(); ++i) {
    double w = double{adam.weights[i]}, g = double{gradient[i]};
    if (o.kind == "adamw") {
      w -= kLearningRate * o.weight_decay * w;
    } else {
      g += o.weight_decay * w;
    }
    adam.momentum[i] = static_cast<float>(o.beta1 * double{adam.momentum[i]} + (1 - o.beta1) * g);
    adam.square[i] = static_cast<float>(o.beta2 * double{adam.square[i]} + (1 - o.beta2) * g * g);
    const double square = double{adam.square[i]} / (1 - std::pow(o.beta2, t));
    const double change = double{adam.momentum[i]} / (1 - std::pow(o.beta1, t)) / (std::sqrt(square) + o.eps);
    adam.weights[i] = static_cast<float>(w - kLearningRate * change);
  }
}

Flat rank_momentum(const Adam& adam, const Flat& gradient, const toy::ToyOptimizer& o) {
  Flat momentum = adam.momentum;
  const auto fresh = static_cast<float>(1.0 - o.beta1), kept = static_cast<float>(o.beta1);
  const auto l2 = static_cast<float>(o.kind == "adamw" ? 0.0 : o.weight_decay);
  for (size_t i = 0; i < momentum.size(); ++i) {
    const float decay = l2 * adam.weights[i];
    const float g = l2 == 0 ? gradient[i] : decay + gradient[i];
    const float part = fresh * g;
    momentum[i] = part + kept * momentum[i];
  }
  return momentum;
}

/// What the end of the warm-up makes of the second moments of each parameter.
Flat with_floor(const Flat& square, const Training& training, double part) {
  auto by_one = by_parameter(training, [&](uint64_t i) { return square[i]; });
  for (auto& parameter : by_one) {
    double sum = 0;
    for (const double value : parameter) sum += value;
    const auto least = static_cast<float>(part * (sum / static_cast<double>(parameter.size())));
    for (double& value : parameter) value = double{static_cast<float>(value) + least};
  }
  return flattened(by_one);
}

/// The second moment and its correction are those of step `warmup`.
void compressed_step(Adam& adam, const Training& training, int warmup, double learning_rate) {
  const toy::ToyOptimizer& o = training.optimizer;
  ++adam.step;
  const auto rate = static_cast<float>(learning_rate / (1 - std::pow(o.beta1, adam.step)));
  const auto correction = static_cast<float>(std::sqrt(1 - std::pow(o.beta2, warmup)));
  const auto keep = static_cast<float>(1 - (o.kind == "adamw" ? learning_rate * o.weight_decay : 0.0));
  const auto eps = static_cast<float>(o.eps);
  for (size_t i = 0; i < adam.weights.size(); ++i) {
    const float root = std::sqrt(adam.square[i]);
    const float denominator = root / correction + eps;
    const float change = adam.square[i] == 0 ? 0 : rate * adam.momentum[i] / denominator;
    adam.weights[i] = keep * adam.weights[i] - change;
  }
}

using Combine = std::function<Flat(const ByRank& momenta)>;

/// `factor`: of the learning rate after the warm-up.
void simulate_step(Adam& adam, const Training& training, int step, int warmup, const Combine& combine,
                   double factor = 1) {
  ByRank all;
  for (int rank = 0; rank < training.ranks; ++rank) all.push_back(gradients(training, rank, step));
  if (step < warmup) return warm_up_step(adam, mean_of(all), training);
  for (Flat& own : all) own = rank_momentum(adam, own, training.optimizer);
  adam.momentum = combine(all);
  compressed_step(adam, training, warmup, kLearningRate * factor);
}

Adam before_training(const Training& training) {
  return {first_weights(training), Flat(numel_of(training)), Flat(numel_of(training))};
}

void expect_simulated(const Training& training, int warmup, const Combine& combine, double floor = 1e-4) {
  const auto got = trained(training);
  Adam adam = before_training(training);
  Followers followers(training);
  for (int step = 0; step < training.steps; ++step) {
    if (step == warmup) adam.square = with_floor(adam.square, training, floor);
    simulate_step(adam, training, step, warmup, combine);
    followers.step(training, adam.weights);
    for (const Flat& own : got[static_cast<size_t>(step)]) {
      ASSERT_EQ(difference(own, adam.weights), "") << "step " << step;
    }
  }
  for (const Flat& own : got.back()) EXPECT_EQ(difference(own, adam.weights), "") << "after the end";
}

class Qadam : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Qadam, ::testing::Values(2, 3, 4));

TEST_P(Qadam, IsAdamAndThenCompressesTheMomentum) {
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  expect_simulated(qadam(",warmup_steps=4", GetParam()), 4, combine);
  expect_simulated(qadam(",warmup_steps=1", GetParam()), 1, combine);
  expect_simulated(qadam("", GetParam()), 100, combine);
}

TEST_P(Qadam, TakesTheOptimizersStepsOfWarmUpUnlessTheOptionSaysOtherwise) {
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  Training training = qadam("", GetParam());
  training.optimizer.warmup_steps = 5;
  expect_simulated(training, 5, combine);
  training.algorithm += ",warmup_steps=2";
  expect_simulated(training, 2, combine);
}

TEST_P(Qadam, KeepsTheWeightDecayOfItsOptimizer) {
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  expect_simulated(qadam(",warmup_steps=3", GetParam(), "adam", 0.1), 3, combine);
  expect_simulated(qadam(",warmup_steps=3", GetParam(), "adamw", 0.1), 3, combine);
}

TEST_P(Qadam, KeepsItsBucketsUnderLayersThatMoveThem) {
  Training training = qadam(",warmup_steps=8", GetParam(), "adamw", 0.1);
  training.layers = kFollowers;
  training.steps = 20;
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  expect_simulated(training, 8, combine);
}

// After the warm-up it makes the step itself, so that the host's optimizer cannot apply the factor.
TEST_P(Qadam, FollowsTheFactorThatALayerSets) {
  constexpr int kWarmup = 3, kSetAt = 5;
  Training training = qadam(",warmup_steps=3", GetParam(), "adamw", 0.1);
  training.layers = {"lr_factor,factor=0.5,at=" + std::to_string(kSetAt)};
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  const auto got = trained(training);
  Adam adam = before_training(training);
  for (int step = 0; step < training.steps; ++step) {
    if (step == kWarmup) adam.square = with_floor(adam.square, training, 1e-4);
    simulate_step(adam, training, step, kWarmup, combine, step < kSetAt ? 1 : 0.5);
    for (const Flat& own : got[static_cast<size_t>(step)]) {
      ASSERT_EQ(difference(own, adam.weights), "") << "step " << step;
    }
  }
}

TEST(QadamOnTwoNodes, CompressesBetweenNodesOnly) {
  Training training = qadam(",warmup_steps=2", 4);
  training.nodes = 2;
  expect_simulated(training, 2, [](const ByRank& momenta) {
    return compressed_mean({sum_of({momenta[0], momenta[1]}), sum_of({momenta[2], momenta[3]})}, 4.0f);
  });
}

TEST_P(Qadam, RaisesSecondMomentsToAPartOfTheirMean) {
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  for (const double floor : {0.0, 0.25, 1.0}) {
    expect_simulated(qadam(",warmup_steps=3,variance_floor=" + std::to_string(floor), GetParam()), 3, combine, floor);
  }
}

/// Returns by how far training has moved each element, of which the first was dead in the warm-up.
Flat moved_after_dead_warm_up(const std::string& options) {
  Training training = qadam(",warmup_steps=2" + options, 2);
  training.dead_until = 2;
  Flat moved = trained(training).back()[0];
  for (size_t i = 0; i < moved.size(); ++i) moved[i] = std::abs(moved[i] - first_weight(i));
  return moved;
}

TEST(QadamElements, WithoutSecondMomentTakeStepsOfTheFloor) {
  const Flat moved = moved_after_dead_warm_up("");
  for (size_t i = 0; i < moved.size(); ++i) {
    ASSERT_GT(moved[i], 0.0f) << i;
    ASSERT_LT(moved[i], i == 0 ? 100.0f : 1.0f) << i;  // 1 / sqrt(1e-4) times as far as others
  }
}

// The momentum divided by eps would be a step of any size.
TEST(QadamElements, WithoutSecondMomentOrFloorStayAsTheyAre) {
  const Flat moved = moved_after_dead_warm_up(",variance_floor=0");
  EXPECT_EQ(moved[0], 0.0f);
  for (size_t i = 1; i < moved.size(); ++i) {
    ASSERT_GT(moved[i], 0.0f) << i;
    ASSERT_LT(moved[i], 1.0f) << i;
  }
}

/// Returns each rank's weights at the end of a second run, which goes on from a checkpoint of the first one.
ByRank trained_in_two(const Training& first, int saved_at, const Training& second) {
  const auto ranks = static_cast<size_t>(first.ranks);
  std::vector<std::pair<toy::ToyState, host::StrategyState>> saved(ranks);
  on_ranks(first, [&](Trainee& trainee) {
    trainee.steps(0, saved_at);
    trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
    saved[static_cast<size_t>(trainee.rank())] = {trainee.model().state(), trainee.runtime().save_state()};
  });
  ByRank ends(ranks);
  on_ranks(second, [&](Trainee& trainee) {
    const auto& [model, strategy] = saved[static_cast<size_t>(trainee.rank())];
    trainee.model().set_state(model);
    trainee.runtime().load_state(strategy, static_cast<uint64_t>(saved_at));
    trainee.steps(saved_at, second.steps);
    ends[static_cast<size_t>(trainee.rank())] = trainee.finish();
  });
  return ends;
}

TEST_P(Qadam, GoesOnFromACheckpointBitByBit) {
  for (const int saved_at : {2, 4, 6}) {  // before, at and after the end of the warm-up
    const Training training = qadam(",warmup_steps=4,variance_floor=0.5", GetParam(), "adamw", 0.1);
    const auto whole = trained(training);
    for (const Flat& own : trained_in_two(training, saved_at, training)) {
      EXPECT_EQ(difference(own, whole.back()[0]), "") << "saved after step " << saved_at;
    }
  }
}

TEST_P(Qadam, RaisesAfterACheckpointThatWasNotRaised) {
  const auto combine = [&](const ByRank& momenta) { return compressed_mean(momenta, static_cast<float>(GetParam())); };
  const Training without = qadam(",warmup_steps=4,variance_floor=0", GetParam());
  const Training with = qadam(",warmup_steps=4,variance_floor=0.5", GetParam());
  Adam adam = before_training(with);
  for (int step = 0; step < with.steps; ++step) {
    if (step == 6) adam.square = with_floor(adam.square, with, 0.5);
    simulate_step(adam, with, step, 4, combine);
  }
  for (const Flat& own : trained_in_two(without, 6, with)) EXPECT_EQ(difference(own, adam.weights), "");
}

TEST_P(Qadam, SendsAQuarterAfterTheWarmUp) {
  Training training = qadam(",warmup_steps=1", GetParam());
  training.sizes = {50'000, 20'001};
  on_ranks(training, [&](Trainee& trainee) {
    trainee.step(0);
    const uint64_t full = trainee.runtime().bytes_sent();
    trainee.step(1);
    const uint64_t compressed = trainee.runtime().bytes_sent() - full;
    if (100 * compressed > 26 * full) throw std::runtime_error("more than 0.26 times the bytes");
  });
}

TEST(QadamRefuses, TwoAveragedBackwardPassesOfOneStep) {
  const Training training = qadam(",warmup_steps=2", 2);
  const auto texts = toy::run_ranks_to_failure(job_of(training), [&](toy::ToyRank& rank) {
    Trainee trainee(rank, training);
    trainee.steps(0, 3);
    trainee.engine().begin(true);
    for (int backward = 0; backward < 2; ++backward) {
      trainee.engine().select(0);
      trainee.engine().end_backward();
    }
  });
  for (const std::string& text : texts) EXPECT_THAT(text, HasSubstr("add up the losses"));
}

TEST(QadamRefuses, OtherOptimizersAndNoWarmUp) {
  EXPECT_THAT(failure_of({.algorithm = "qadam"}), AllOf(HasSubstr("Adam or AdamW"), HasSubstr("'sgd'")));
  EXPECT_THAT(failure_of(qadam(",warmup_steps=0", 2)), HasSubstr("warmup_steps=1 or more"));
  EXPECT_THAT(failure_of(qadam(",warmup_steps=-3", 2)), HasSubstr("'-3'"));
  EXPECT_THAT(failure_of(qadam(",warmup_steps=many", 2)), HasSubstr("'many'"));
}

TEST(QadamRefuses, AFloorThatIsNoPart) {
  for (const char* const value : {"-0.1", "1.5", "nan", "low"}) {
    EXPECT_THAT(failure_of(qadam(",variance_floor=" + std::string(value), 2)),
                AllOf(HasSubstr("variance_floor"), HasSubstr(value)));
  }
  EXPECT_THAT(failure_of({.algorithm = "bytegrad,variance_floor=0.1"}), HasSubstr("qadam"));
}

}  // namespace
