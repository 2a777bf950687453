// Means are over samples, whatever the shapes of a batch's tensors are.
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/module.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"

namespace cohort::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// Four graphs: number i has i + 1 nodes, and the label i.
struct Graphs final : SampleDataset {
  int64_t size() const override { return 4; }
  Value sample(int64_t index) override {
    return Value::map({{"nodes", torch::ones({index + 1, 2})}, {"label", torch::full({1}, static_cast<float>(index))}});
  }
};

using Collate = std::function<Batch(std::span<const Value>)>;

at::Tensor joined(std::span<const Value> samples, const char* key, int64_t dim = 0) {
  std::vector<at::Tensor> all;
  for (const Value& sample : samples) all.push_back(sample[key].tensor());
  return torch::cat(all, dim);
}

Batch nodes_first(std::span<const Value> samples) {
  return {{"nodes", joined(samples, "nodes")}, {"label", joined(samples, "label")}};
}

Batch labels_first(std::span<const Value> samples) {
  return {{"label", joined(samples, "label")}, {"nodes", joined(samples, "nodes")}};
}

/// Three steps of time for each sample.
Batch time_first(std::span<const Value> samples) {
  const at::Tensor label = joined(samples, "label");
  return {{"series", torch::ones({3, label.size(0), 2})}, {"label", label}};
}

struct LabelLogger final : ModuleFor<LabelLogger> {
  LabelLogger() : w(register_parameter("w", torch::zeros({}))) {}
  Output training_step(const Batch& batch, int64_t) override {
    log("train_label", batch["label"].tensor().mean(), LogWhere::kEpoch);
    return w * batch["label"].tensor().mean();
  }
  void validation_step(const Batch& batch, int64_t) override { log("label", batch["label"].tensor().mean()); }
  void test_step(const Batch& batch, int64_t) override {
    const auto nodes = batch["nodes"].tensor().size(0);
    log("per_node", static_cast<double>(nodes), {.samples = nodes});
  }
  Output predict_step(const Batch& batch, int64_t) override { return batch["label"].tensor(); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.0); }
  at::Tensor w;
};

/// Batches of three graphs and of one.
struct GraphData final : DataModule {
  explicit GraphData(const Collate& collate)
      : loader{.dataset = std::make_shared<Graphs>(), .batch_size = 3, .collate = collate} {}
  Loader train() override { return loader; }
  Loader validation() override { return loader; }
  Loader test() override { return loader; }
  Loader predict() override { return loader; }
  Loader loader;
};

TEST(SampleCount, IsTheLoadersInMeans) {
  for (const Collate collate : {nodes_first, labels_first, time_first}) {
    ScriptedRun run;
    LabelLogger net;
    GraphData data(collate);
    RunRecord record;
    Trainer trainer(run.runtime(), record);
    EXPECT_THAT(trainer.validate(net, data), ElementsAre(Pair("label", DoubleNear(1.5, 1e-6))));
    trainer.fit(net, data);
    EXPECT_NEAR(record.metrics.at("train_label"), 1.5, 1e-6);
    EXPECT_EQ(record.samples % 4, 0U);
  }
}

TEST(SampleCount, OfAValueIsItsOwnWeight) {
  ScriptedRun run;
  LabelLogger net;
  GraphData data(nodes_first);
  RunRecord record;
  // 6 nodes and 4: (6 * 6 + 4 * 4) / 10.
  EXPECT_THAT(Trainer(run.runtime(), record).test(net, data), ElementsAre(Pair("per_node", DoubleNear(5.2, 1e-6))));
}

TEST(SampleCount, LetsPredictionsHaveARowForEachSample) {
  ScriptedRun run;
  LabelLogger net;
  GraphData data(nodes_first);
  RunRecord record;
  const Value all = Trainer(run.runtime(), record).predict(net, data);
  EXPECT_TRUE(torch::equal(all.tensor(), torch::arange(4).to(torch::kFloat)));
}

struct GraphStream final : StreamDataset {
  explicit GraphStream(bool says) : says_samples(says) {}
  void start(const Shard&) override { left = 2; }
  std::optional<Batch> next() override {
    if (left-- == 0) return std::nullopt;
    const int64_t graphs = left == 1 ? 3 : 1;
    Batch batch{{"nodes", torch::ones({7, 2})}, {"label", torch::full({graphs}, static_cast<float>(graphs))}};
    if (says_samples) batch.samples(graphs);
    return batch;
  }
  bool says_samples;
  int64_t left = 0;
};

TEST(SampleCount, IsSaidByAStreamOrRefused) {
  ScriptedRun run;
  LabelLogger net;
  GraphData data(nodes_first);
  RunRecord record;
  Trainer trainer(run.runtime(), record);
  data.loader = {.stream = std::make_shared<GraphStream>(true)};
  EXPECT_THAT(trainer.validate(net, data), ElementsAre(Pair("label", DoubleNear(2.5, 1e-6))));
  data.loader = {.stream = std::make_shared<GraphStream>(false)};
  EXPECT_THAT(error_text<UserError>([&] { trainer.validate(net, data); }), HasSubstr("batch.samples(N)"));
}

TEST(SampleCount, CutsNoTensorOfOtherRowsIntoPieces) {
  ScriptedRun run([](Script& s) { s.selection.replicas = 2; });
  LabelLogger net;
  GraphData data(labels_first);
  RunRecord record;
  EXPECT_THAT(error_text<UserError>([&] { Trainer(run.runtime(), record).validate(net, data); }),
              HasSubstr("batch[\"nodes\"] has 6 rows where the batch has 3 samples"));
}

}  // namespace
}  // namespace cohort::testing
