// Metrics of an epoch that another number of ranks goes on with.
#include "checkpoint/loop_state.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/metric_kinds.hpp>

#include "checkpoint/generators.hpp"
#include "error_text.hpp"
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
  LoopState state;
  state.generator = generator_state();
  state.records = board.records();
  state.metric_states = board.metrics().states();
  TensorIndex file;
  for (const auto& [name, tensor] : loop_tensors(state)) file.emplace(name, tensor.clone());
  return file;
}

TEST(LoopState, ARankGoesOnWithTheMetricsOfSeveral) {
  TensorIndex own = file_of({1, 2});
  add_epoch_metrics(own, file_of({3}), "2", "rank-2");
  add_epoch_metrics(own, file_of({4, 5}), "4", "rank-4");
  const LoopState state = read_loop_state({}, own, "f");
  ASSERT_EQ(state.records.size(), 1U);
  EXPECT_EQ(state.records[0].sum, 1 + 2 + 3 + 4 + 5);
  EXPECT_EQ(state.records[0].weight, 5);
  EXPECT_EQ(state.records[0].last, 2);
  // The object takes all of them as soon as it is logged.
  LoggedMetrics metrics;
  metrics.restore(state.metric_states, {});
  metric::MeanSquaredError error;
  metrics.add("error", error);
  EXPECT_DOUBLE_EQ(error.compute().item<double>(), (1 + 4 + 9 + 16 + 25) / 5.0);
}

TEST(LoopState, ANameThatNoTrainingLogsIsRefused) {
  for (const char* kind : {"epoch", "state", "value", "validation", "latest"}) {
    TensorIndex own = file_of({});
    const std::string key = std::string("cohort.metrics.") + kind + "/a\n0,1,2";
    own.emplace(key, torch::zeros({1}, at::kDouble));
    EXPECT_THAT(error_text<UserError>([&] { read_loop_state({}, own, "f"); }),
                ::testing::HasSubstr("is no name of a metric"))
        << key;
  }
}

TEST(LoopState, ARankThatHadNoneTakesThoseOfAnother) {
  TensorIndex own = file_of({});
  add_epoch_metrics(own, file_of({7}), "1", "rank-1");
  const LoopState state = read_loop_state({}, own, "f");
  ASSERT_EQ(state.records.size(), 1U);
  EXPECT_EQ(state.records[0].sum, 7);
}

TEST(LoopState, AnAddedRankBeginsWithoutMetrics) {
  TensorIndex own = file_of({1, 2});
  drop_epoch_metrics(own);
  const LoopState state = read_loop_state({}, own, "f");
  EXPECT_TRUE(state.records.empty());
  EXPECT_TRUE(state.metric_states.empty());
}

}  // namespace
}  // namespace cohort
