// Module::log outside of a step.
#include <gmock/gmock.h>

#include "metrics/rank_report.hpp"
#include "small_training.hpp"
#include "warnings.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Logging final : ModuleFor<Logging> {
  Logging() : w(register_parameter("w", torch::zeros({}))) {}
  Output training_step(const Batch& batch, int64_t) override {
    log("train", torch::ones({}).item());
    return (w - batch.tensor()).square().mean();
  }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  void on_train_epoch_end(int64_t epoch) override { log("of_epoch", static_cast<double>(epoch) + 5); }
  void on_fit_end() override {
    if (!logs_late) return;
    log("late", 1);
    log("later", torch::ones({}));
  }
  at::Tensor w;
  bool logs_late = false;
};

struct Listener final : Callback {
  std::string name() const override { return "listener"; }
  void on_train_epoch_end(Fit&, const Metrics& means) override { heard.push_back(means); }
  std::vector<Metrics> heard;
};

Metrics fit(Logging& net, const std::shared_ptr<Listener>& listener, const std::function<void(Script&)>& set) {
  ScriptedRun run(set);
  Numbers data(6);
  data.evaluation = {};
  RunRecord record;
  return Trainer(run.runtime(), record, {.max_epochs = 2, .callbacks = {listener}}).fit(net, data);
}

TEST(Log, AtTheEndOfAnEpochIsAValueOfTheEpoch) {
  Logging net;
  const auto listener = std::make_shared<Listener>();
  const Warnings warnings;
  EXPECT_EQ(fit(net, listener, [](Script&) {}).at("of_epoch"), 6);
  EXPECT_THAT(listener->heard,
              ElementsAre(Metrics{{"of_epoch", 5}, {"train", 1}}, Metrics{{"of_epoch", 6}, {"train", 1}}));
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(Log, AtTheEndOfAnEpochIsTheMeanOfTheRanks) {
  Logging net;
  const auto listener = std::make_shared<Listener>();
  const auto metrics = fit(net, listener, [](Script& s) {
    s.topology.world_size = 2;
    s.all_gather = [](std::string own) { return std::vector{own, to_text({.totals = {{"of_epoch", 8, 1}}})}; };
  });
  EXPECT_EQ(metrics.at("of_epoch"), 7);
}

TEST(Log, WithoutALoopIsWarnedOfOnce) {
  Logging net;
  net.logs_late = true;
  const Warnings warnings;
  const auto metrics = fit(net, std::make_shared<Listener>(), [](Script&) {});
  EXPECT_FALSE(metrics.contains("late"));
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("log(\"late\") is not recorded")));
}

TEST(Log, IsDroppedSilentlyWhereNothingIsReported) {
  Logging net;
  const Warnings warnings;
  EXPECT_THAT(fit(net, std::make_shared<Listener>(), [](Script& s) { s.options.barebones = true; }), IsEmpty());
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

}  // namespace
}  // namespace cohort::testing
