// The state of a training in sections, and metrics of an epoch with which another number of ranks resumes.
#include "checkpoint/loop_state.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/metric_kinds.hpp>

#include "checkpoint/generators.hpp"
#include "error_text.hpp"
#include "metrics/epoch_state.hpp"
#include "metrics/logged_metrics.hpp"

namespace cohort {
namespace {

/// Returns the file of a rank that has measured these values, each for one sample, with an error of the same size.
TensorIndex file_of(const std::vector<double>& values) {
  MetricBoard board;
  metric::MeanSquaredError error;
  for (const double value : values) {
    board.add("loss", value, {.where = LogWhere::kEpoch});
    error.update(torch::full({1}, value), torch::zeros({1}));
    board.add("error", error);
  }
  NamedTensors tensors;
  const StateWriter state(tensors);
  save_generators(state, {});
  save_records(state, board.records());
  state.in(kMetricStateSection).put_all(board.metrics().states());
  TensorIndex file;
  for (const auto& [name, tensor] : tensors) file.emplace(name, tensor.clone());
  return file;
}

TEST(LoopState, AddsTheMetricsOfSeveralRanks) {
  TensorIndex own = file_of({1, 2});
  add_epoch(own, file_of({3}), "2", "rank-2");
  add_epoch(own, file_of({4, 5}), "4", "rank-4");
  const StateReader state(own, "f");
  const auto records = read_records(state);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].sum, 1 + 2 + 3 + 4 + 5);
  EXPECT_EQ(records[0].weight, 5);
  EXPECT_EQ(records[0].last, 2);
  // The object takes all of them as soon as it is logged.
  LoggedMetrics metrics;
  metrics.restore(state.in(kMetricStateSection).tensors(), {});
  metric::MeanSquaredError error;
  metrics.add("error", error);
  EXPECT_DOUBLE_EQ(error.compute().item<double>(), (1 + 4 + 9 + 16 + 25) / 5.0);
}

TEST(LoopState, RefusesAnInvalidNameOfAMetric) {
  for (const char* kind : {"epoch", "state", "value", "validation", "latest"}) {
    TensorIndex own = file_of({});
    const std::string key = std::string("cohort.metrics.") + kind + "/a\n0,1,2";
    own.emplace(key, torch::zeros({1}, at::kDouble));
    EXPECT_THAT(error_text<UserError>([&] {
                  check_loop_state({own, "f"});
                }),
                ::testing::HasSubstr("is no name of a metric"))
        << key;
  }
}

TEST(LoopState, TakesTheMetricsOfAnotherRank) {
  TensorIndex own = file_of({});
  add_epoch(own, file_of({7}), "1", "rank-1");
  const auto records = read_records({own, "f"});
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].sum, 7);
}

TEST(LoopState, DropsTheMetricsOfTheEpoch) {
  TensorIndex own = file_of({1, 2});
  ASSERT_FALSE(StateReader(own, "f").in(kMetricStateSection).tensors().empty());
  drop_epoch(own);
  EXPECT_TRUE(read_records({own, "f"}).empty());
  EXPECT_TRUE(StateReader(own, "f").in(kMetricStateSection).tensors().empty());
  EXPECT_TRUE(own.contains(kGeneratorName));
}

TEST(LoopState, HasAPolicyForEachSection) {
  const std::map<std::string, StatePolicy> policies{{"fc.weight", StatePolicy::kModel},
                                                    {"cohorts.weight", StatePolicy::kModel},
                                                    {"cohort.trained/fc.weight", StatePolicy::kTrained},
                                                    {"optimizer.exp_avg.fc.weight", StatePolicy::kOptimizer},
                                                    {"cohort.state/layer/memory/fc.weight", StatePolicy::kStrategy},
                                                    {"cohort.strategy/layer/count", StatePolicy::kStrategy},
                                                    {"cohort.callbacks/stopper/best", StatePolicy::kShared},
                                                    {"cohort.module/count", StatePolicy::kCompared},
                                                    {"cohort.rank/own/part", StatePolicy::kTied},
                                                    {"cohort.rank_mean//part", StatePolicy::kMean},
                                                    {"cohort.validated/fc.weight", StatePolicy::kValidated},
                                                    {"cohort.metrics.epoch/loss", StatePolicy::kAdded},
                                                    {"cohort.metrics.state/error/sum", StatePolicy::kAdded},
                                                    {"cohort.metrics.latest/loss", StatePolicy::kRank},
                                                    {"cohort.generator.cpu", StatePolicy::kRank},
                                                    {"cohort.stream/place", StatePolicy::kRank}};
  for (const auto& [name, policy] : policies) EXPECT_EQ(policy_of(name), policy) << name;
}

TEST(LoopState, ReadsASectionWithoutItsNeighbours) {
  const at::Tensor number = torch::zeros({1}, at::kDouble);
  const TensorIndex tensors{{"a-b/x", number}, {"a/b/x", number}, {"a/b/y", number}, {"a/c-d/x", number},
                            {"a/c/x", number}, {"a/z", number},   {"a0/x", number}};
  const StateReader section = StateReader(tensors, "f").in("a");
  EXPECT_THAT(section.sections(), ::testing::ElementsAre("b", "c-d", "c"));
  EXPECT_EQ(section.tensors().size(), 5U);
  EXPECT_THAT(section.in("b").metrics(), ::testing::ElementsAre(::testing::Key("x"), ::testing::Key("y")));
  EXPECT_THAT(error_text<UserError>([&] { section.in("b").at("z"); }), ::testing::HasSubstr("f lacks 'a/b/z'"));
}

}  // namespace
}  // namespace cohort
