// Gradients while a training runs: their norm, and the operator that makes a NaN.
#include <gmock/gmock.h>

#include <cmath>

#include <cohort/callbacks.hpp>

#include "small_training.hpp"
#include "warnings.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

/// A loss whose gradients are 3 and -4.
struct Slope final : ModuleFor<Slope> {
  Slope() : w(register_parameter("w", torch::zeros({2}))) {}
  Output training_step(const Batch&, int64_t) override {
    if (makes_nan) return (w * 0).sqrt().sum();
    return 3 * w[0] - 4 * w[1];
  }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  at::Tensor w;
  bool makes_nan = false;
};

struct Slopes {
  ScriptedRun scripted;
  Slope net;
  Numbers data{6};
  RunRecord record;
  explicit Slopes(const std::function<void(Script&)>& script)
      : scripted([&](Script& s) {
          s.options.max_epochs = 1;
          s.options.log_every_n_steps = 2;
          script(s);
        }) {
    data.evaluation = {};
  }
  Metrics fit() { return Trainer(scripted.runtime(), record).fit(net, data); }
};

TEST(GradientNorm, IsLoggedByAFlag) {
  Slopes two([](Script& s) { s.options.track_grad_norm = 2; });
  EXPECT_DOUBLE_EQ(two.fit().at("grad_norm"), 5);
  Slopes largest([](Script& s) { s.options.track_grad_norm = std::numeric_limits<double>::infinity(); });
  EXPECT_DOUBLE_EQ(largest.fit().at("grad_norm"), 4);
  EXPECT_FALSE(Slopes([](Script&) {}).fit().contains("grad_norm"));
  EXPECT_THROW(GradientNorm(0), UserError);
}

// If ranks own parameters, only the owner has the complete gradient.
TEST(GradientNorm, PutsTogetherWhatRanksOwn) {
  Slopes owner([](Script& s) {
    s.options.track_grad_norm = 2;
    s.state_keeper = [](const at::Tensor&) { return host::StateKeeper::kThisRank; };
  });
  EXPECT_NEAR(owner.fit().at("grad_norm"), 5, 1e-12);
  Slopes other([](Script& s) {
    s.options.track_grad_norm = 2;
    s.state_keeper = [](const at::Tensor&) { return host::StateKeeper::kAnotherRank; };
  });
  EXPECT_EQ(other.fit().at("grad_norm"), 0);
}

TEST(DetectAnomaly, NamesTheOperatorAndTheBatch) {
  const Warnings backtrace_of_the_forward;
  Slopes watched([](Script& s) { s.options.detect_anomaly = true; });
  watched.net.makes_nan = true;
  const auto text = error_text<Error>([&] { watched.fit(); });
  EXPECT_THAT(text, HasSubstr("backward, epoch 0, batch 0, rank 0: "));
  EXPECT_THAT(text, HasSubstr("Function 'MulBackward"));
}

TEST(DetectAnomaly, IsOffOtherwiseAndAfterwards) {
  {
    Slopes watched([](Script& s) { s.options.detect_anomaly = true; });
    watched.fit();
  }
  Slopes unwatched([](Script&) {});
  unwatched.net.makes_nan = true;
  EXPECT_THAT(error_text<Error>([&] { unwatched.fit(); }), HasSubstr("the training loss is not finite at step 2"));
}

}  // namespace
}  // namespace cohort::testing
