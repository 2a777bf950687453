// States of metrics, and metrics of a user's own.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/metric_kinds.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "metrics/packed_states.hpp"

namespace cohort {
namespace {

using at::Tensor;
using metric::MeanAbsoluteError;
using metric::MeanSquaredError;
using ::testing::HasSubstr;

TEST(Metric, HasNoValueBeforeTheFirstUpdateAndAfterAReset) {
  MeanAbsoluteError metric;
  const auto refusal = [&] { return error_text<UserError>([&] { metric.compute(); }); };
  EXPECT_EQ(
      refusal(),
      "cohort::metric::MeanAbsoluteError: compute was called before update; update the metric with a batch at least");
  metric.update(torch::ones({2}), torch::zeros({2}));
  metric.reset();
  EXPECT_THAT(refusal(), HasSubstr("before update"));
  metric.update(torch::zeros({2}), torch::zeros({2}));
  EXPECT_EQ(metric.compute().item<double>(), 0) << "nothing is left of the first batch";
}

/// One of a user's own: begins at 10, and keeps the largest of each batch.
struct Own final : Metric {
  Own() {
    add_state("sum", torch::full({}, 10, torch::kLong), Reduce::kSum);
    add_state("largest", torch::empty({0}), Reduce::kConcatenate);
  }
  void update(const Tensor& predictions, const Tensor&) override {
    add("sum", predictions.sum());
    add("largest", predictions.max());
  }
  Tensor compute() const override {
    return torch::cat({state("sum").unsqueeze(0).to(torch::kDouble), state("largest").to(torch::kDouble)});
  }
  using Metric::add;
  using Metric::add_state;
};

TEST(Metric, OfOnesOwnKeepsWhatIsAdded) {
  Own own;
  Tensor batch = torch::tensor({1.0F, 4.0F}).requires_grad_(true) * 1;
  own.update(batch, {});
  batch.detach().zero_();
  own.update(torch::tensor({3.0F}), {});
  EXPECT_TRUE(torch::equal(own.compute(), torch::tensor({18.0, 4.0, 3.0}, torch::kDouble)));
}

TEST(Metric, StatesOfOnesOwnAreChecked) {
  Own own;
  EXPECT_THAT(error_text<UserError>([&] { own.add("sums", torch::ones({})); }), HasSubstr("no state 'sums'"));
  EXPECT_THAT(error_text<UserError>([&] { own.add("sum", Tensor()); }), HasSubstr("undefined"));
  EXPECT_THAT(error_text<UserError>([&] { own.add_state("sum", torch::ones({}), Reduce::kSum); }),
              HasSubstr("two states"));
  EXPECT_THAT(error_text<UserError>([&] { own.add_state("a/b", torch::ones({}), Reduce::kSum); }),
              HasSubstr("letters"));
  EXPECT_THAT(error_text<UserError>([&] { own.add_state("c", Tensor(), Reduce::kSum); }), HasSubstr("undefined"));
}

TEST(Metric, OverRanksCountsTheStatesOfAllOnceAndKeepsItsOwn) {
  testing::ScriptedRun run([](testing::Script& s) {
    s.topology.world_size = 3;
    s.all_gather = [](std::string own) {
      const NamedTensors other{{"sum", torch::tensor(int64_t{7})}, {"largest", torch::tensor({7.0F})}};
      return std::vector<std::string>{packed_states(other), std::move(own), ""};
    };
  });
  Own own;
  own.update(torch::tensor({1.0F}), {});
  const Tensor wanted = torch::tensor({18.0, 7.0, 1.0}, torch::kDouble);
  EXPECT_TRUE(torch::equal(own.compute_over_ranks(run.runtime()), wanted));
  EXPECT_TRUE(torch::equal(own.compute_over_ranks(run.runtime()), wanted));
  EXPECT_TRUE(torch::equal(own.compute(), torch::tensor({11.0, 1.0}, torch::kDouble)));
}

TEST(MetricCollection, UpdatesAndComputesEachByItsName) {
  MetricCollection metrics{{"mse", MeanSquaredError()}, {"mae", std::make_shared<MeanAbsoluteError>()}};
  metrics.update(torch::full({2}, 3.0), torch::ones({2}));
  EXPECT_EQ(metrics.compute().at("mse").item<double>(), 4);
  EXPECT_EQ(metrics.compute().at("mae").item<double>(), 2);
  metrics.reset();
  EXPECT_THROW(metrics.compute(), UserError);
  EXPECT_THAT(error_text<UserError>([] {
                MetricCollection twice{{"a", MeanSquaredError()}, {"a", MeanAbsoluteError()}};
              }),
              HasSubstr("two metrics are called 'a'"));
}

}  // namespace
}  // namespace cohort
