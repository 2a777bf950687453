#include "loop/prediction.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/module.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "temporary_folder.hpp"
#include "value/flat_value.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;
using testing::Script;
using testing::ScriptedRun;

/// Doubles its samples, and says in which mode it was asked.
struct Doubles final : ModuleFor<Doubles> {
  Doubles() : w(register_parameter("w", torch::full({}, 2.0F))) {}
  Output predict_step(const Batch& batch, int64_t) override {
    EXPECT_FALSE(is_training());
    EXPECT_FALSE(at::GradMode::is_enabled());
    if (broken.defined()) return broken;
    const at::Tensor x = batch.tensor();
    return Output::map({{"twice", w * x}, {"pair", Output::list({x, x.unsqueeze(1).expand({x.size(0), 3})})}});
  }
  at::Tensor w, broken;
};

struct Numbers final : DataModule {
  Loader predict() override { return loader; }
  Loader loader{.dataset = std::make_shared<TensorDataset>(std::vector{torch::arange(7).to(torch::kFloat)}),
                .batch_size = 3};
};

Value predict(ScriptedRun& run, Module& module, DataModule& data) {
  RunRecord record;
  return Trainer(run.runtime(), record).predict(module, data);
}

TEST(Predict, ReturnsARowForEachSampleInTheStructureOfTheOutput) {
  for (const int replicas : {1, 3}) {
    ScriptedRun run([&](Script& s) { s.selection.replicas = replicas; });
    Doubles net;
    Numbers data;
    const Value all = predict(run, net, data);
    EXPECT_TRUE(torch::equal(all["twice"].tensor(), torch::arange(7) * 2.0F)) << replicas;
    EXPECT_TRUE(torch::equal(all["pair"][0].tensor(), torch::arange(7).to(torch::kFloat))) << replicas;
    EXPECT_EQ(all["pair"][1].tensor().sizes().vec(), (std::vector<int64_t>{7, 3})) << replicas;
    EXPECT_TRUE(net.is_training()) << "as before";
  }
}

TEST(Predict, RefusesOutputsWithoutARowForEachSample) {
  ScriptedRun run;
  Doubles net;
  Numbers data;
  net.broken = torch::zeros({2, 5});
  EXPECT_THAT(error_text<UserError>([&] { predict(run, net, data); }),
              HasSubstr("shape [2, 5] for a batch of 3 samples"));
  net.broken = torch::zeros({});
  EXPECT_THAT(error_text<UserError>([&] { predict(run, net, data); }), HasSubstr("one row for each sample"));
  struct Mute final : ModuleFor<Mute> {
  } mute;
  EXPECT_THAT(error_text<UserError>([&] { predict(run, mute, data); }), HasSubstr("has no predict_step"));
}

TEST(Predict, OutputsOfAnotherStructureAreToldWithTheirBatch) {
  struct Changing final : ModuleFor<Changing> {
    Output predict_step(const Batch& batch, int64_t index) override { return index == 0 ? batch : later(batch); }
    std::function<Output(const at::Tensor&)> later;
  } net;
  Numbers data;
  ScriptedRun run;
  const auto refusal = [&](std::function<Output(const at::Tensor&)> later) {
    net.later = std::move(later);
    return error_text<UserError>([&] { predict(run, net, data); });
  };
  const auto is_placed = HasSubstr("predict_step, batch 1, rank 0: predict_step returned");
  EXPECT_THAT(refusal([](const at::Tensor& x) {
                return Output{{"label", x}};
              }),
              AllOf(is_placed, HasSubstr("returned a map of 'label', and tensor for the batches before"),
                    HasSubstr("batch: Float [3]")));
  EXPECT_THAT(refusal([](const at::Tensor& x) {
                return Output::list({x, x});
              }),
              AllOf(is_placed, HasSubstr("list of 2")));
  EXPECT_THAT(refusal([](const at::Tensor& x) { return x.unsqueeze(1); }),
              AllOf(is_placed, HasSubstr("shape [3, 1] behind one of shape [3]")));
  EXPECT_THAT(refusal([](const at::Tensor&) { return Output(); }), AllOf(is_placed, HasSubstr("returned nothing")));
}

TEST(Predict, AKeyThatALaterBatchLacksIsTold) {
  struct Fewer final : ModuleFor<Fewer> {
    Output predict_step(const Batch& batch, int64_t index) override {
      const at::Tensor x = batch;
      return index == 0 ? Output{{"label", x}, {"score", x}} : Output{{"label", x}};
    }
  } net;
  Numbers data;
  ScriptedRun run;
  EXPECT_THAT(
      error_text<UserError>([&] { predict(run, net, data); }),
      AllOf(HasSubstr("batch 1, rank 0"), HasSubstr("'label', and a map of 'label', 'score' for the batches before")));
}

/// Keeps copies of what it is given.
struct Collector final : PredictionWriter {
  struct Kept {
    Output outputs;
    std::vector<int64_t> samples;
    int64_t index;
    int rank;
  };
  std::vector<Kept> batches;
  bool is_prepared = false;
  void prepare() override { is_prepared = batches.empty(); }
  void write(const PredictedBatch& batch) override {
    EXPECT_TRUE(is_prepared);
    batches.push_back({batch.outputs, {batch.samples.begin(), batch.samples.end()}, batch.index, batch.rank});
  }
};

Collector collected(
    DataModule& data, const std::function<void(Script&)>& script = [](Script&) {}) {
  ScriptedRun run(script);
  Doubles net;
  RunRecord record;
  Collector collector;
  Trainer(run.runtime(), record).predict(net, data, collector);
  return collector;
}

TEST(PredictionWriter, GetsEachBatchWithTheNumbersOfItsSamples) {
  for (const int replicas : {1, 3}) {
    Numbers data;
    data.loader.sampler = [](int64_t, const Shard&) { return std::vector<int64_t>{6, 5, 0, 2}; };
    const Collector collector = collected(data, [&](Script& s) { s.selection.replicas = replicas; });
    ASSERT_EQ(collector.batches.size(), 2U);
    EXPECT_EQ(collector.batches[0].samples, (std::vector<int64_t>{6, 5, 0}));
    EXPECT_EQ(collector.batches[1].samples, (std::vector<int64_t>{2}));
    EXPECT_EQ(collector.batches[1].index, 1);
    EXPECT_TRUE(torch::equal(collector.batches[0].outputs["twice"].tensor(), torch::tensor({12.0F, 10.0F, 0.0F})));
    EXPECT_EQ(collector.batches[1].outputs["pair"][1].tensor().sizes().vec(), (std::vector<int64_t>{1, 3}));
  }
}

/// The numbers from 0 to 7 one by one, put together by a function of the test.
struct SingleNumbers final : SampleDataset {
  int64_t size() const override { return 8; }
  Value sample(int64_t index) override { return torch::full({1}, static_cast<float>(index)); }
};

using Collate = std::function<Batch(std::span<const Value>)>;

std::vector<at::Tensor> tensors_of(std::span<const Value> samples) {
  std::vector<at::Tensor> tensors;
  for (const Value& sample : samples) tensors.push_back(sample.tensor());
  return tensors;
}

/// Leaves 1 and 2 out, as if their files were broken.
Batch filtered(std::span<const Value> samples, bool says_so) {
  std::vector<at::Tensor> rows;
  std::vector<int64_t> kept;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto number = samples[i].tensor().item<float>();
    if (number == 1 || number == 2) continue;
    rows.push_back(samples[i].tensor());
    kept.push_back(static_cast<int64_t>(i));
  }
  Batch batch(torch::cat(rows));
  return says_so ? std::move(batch).kept_samples(std::move(kept)) : batch;
}

std::vector<int64_t> numbers_of_all(const Collector& collector) {
  std::vector<int64_t> numbers;
  for (const auto& batch : collector.batches) {
    const at::Tensor twice = batch.outputs["twice"].tensor();
    for (size_t i = 0; i < batch.samples.size(); ++i) {
      EXPECT_EQ(twice[static_cast<int64_t>(i)].item<float>(), 2.0F * static_cast<float>(batch.samples[i]));
      numbers.push_back(batch.samples[i]);
    }
  }
  return numbers;
}

TEST(KeptSamples, AreThoseThatPredictionsBelongTo) {
  const Collate reversed = [](std::span<const Value> samples) {
    std::vector<int64_t> order;
    for (int64_t i = std::ssize(samples); i-- > 0;) order.push_back(i);
    return Batch(torch::cat(tensors_of(samples)).flip(0)).kept_samples(std::move(order));
  };
  for (const int replicas : {1, 2}) {
    for (const int workers : {0, 2}) {
      Numbers data;
      data.loader = {.dataset = std::make_shared<SingleNumbers>(), .batch_size = 4, .workers = workers};
      data.loader.collate = [](std::span<const Value> samples) { return filtered(samples, true); };
      const auto script = [&](Script& s) { s.selection.replicas = replicas; };
      EXPECT_EQ(numbers_of_all(collected(data, script)), (std::vector<int64_t>{0, 3, 4, 5, 6, 7}));
      data.loader.collate = reversed;
      EXPECT_EQ(numbers_of_all(collected(data, script)), (std::vector<int64_t>{3, 2, 1, 0, 7, 6, 5, 4}));
    }
  }
}

std::string refusal_of(const Collate& collate) {
  Numbers data;
  data.loader = {.dataset = std::make_shared<SingleNumbers>(), .batch_size = 4, .collate = collate};
  return error_text<UserError>([&] { collected(data); });
}

TEST(KeptSamples, AreAskedForIfSomeAreLeftOut) {
  const std::string unsaid = refusal_of([](std::span<const Value> samples) { return filtered(samples, false); });
  EXPECT_THAT(unsaid, HasSubstr("shape [2] for a batch of 4 samples"));
  EXPECT_THAT(unsaid, HasSubstr("say which stay: batch.kept_samples({...})"));
  const std::string counted =
      refusal_of([](std::span<const Value> samples) { return filtered(samples, false).samples(2); });
  EXPECT_THAT(counted, HasSubstr("the batch has 2 samples, and 4 were read for it"));
}

TEST(KeptSamples, AreRefusedIfTheyAreNone) {
  const auto refusal = [](std::vector<int64_t> positions) {
    return refusal_of([&](std::span<const Value> samples) { return stack(samples).kept_samples(positions); });
  };
  EXPECT_THAT(refusal({0, 4}), HasSubstr("batch 0: kept_samples has 4, which is no position among the 4 samples"));
  EXPECT_THAT(refusal({-1}), HasSubstr("kept_samples has -1"));
  EXPECT_THAT(refusal({1, 1}), HasSubstr("kept_samples has 1 twice"));
}

TEST(PredictionWriter, CountsTheSamplesOfAStream) {
  struct Stream final : StreamDataset {
    void start(const Shard& /*shard*/) override { left = 2; }
    std::optional<Batch> next() override {
      return left-- > 0 ? std::optional<Batch>(torch::full({2 + left}, 1.0F)) : std::nullopt;
    }
    int64_t left = 0;
  };
  Numbers data;
  data.loader = {.stream = std::make_shared<Stream>()};
  const Collector collector = collected(data);
  ASSERT_EQ(collector.batches.size(), 2U);
  EXPECT_EQ(collector.batches[0].samples, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(collector.batches[1].samples, (std::vector<int64_t>{3, 4}));
}

TEST(PredictionWriter, ThatFailsEndsThePassAndSaysWhere) {
  struct Full final : PredictionWriter {
    void write(const PredictedBatch& batch) override {
      if (batch.index == 1) throw std::runtime_error("the store is full");
    }
  } full;
  ScriptedRun run;
  Doubles net;
  Numbers data;
  RunRecord record;
  Trainer trainer(run.runtime(), record);
  EXPECT_EQ(error_text<TrainingFailed>([&] { trainer.predict(net, data, full); }),
            "write of the prediction writer, batch 1, rank 0: the store is full");
}

TEST(PredictionFiles, RefuseAFolderWithPredictions) {
  const testing::TemporaryFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    return error_text<UserError>([&] { PredictionFiles(path).prepare(); });
  };
  EXPECT_EQ(refusal(folder.path() / "new" / "folder"), "");
  std::filesystem::create_directories(folder.path() / "rank-x");
  EXPECT_EQ(refusal(folder.path()), "");
  std::filesystem::create_directories(folder.path() / "rank-12");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("holds predictions of an earlier run (rank-12)"));
  EXPECT_THAT(refusal("/dev/null/folder"), HasSubstr("cannot make the folder '/dev/null/folder' for predictions"));
}

TEST(Predict, PutsTheRowsOfRanksIntoTheOrderOfTheData) {
  const auto rank = [](std::vector<int64_t> indices) {
    const at::Tensor rows = torch::tensor(indices) * 10;
    return SafetensorsFile{{{"output", rows}, {"indices", torch::tensor(indices)}, {"other", torch::zeros({1})}}, {}};
  };
  const std::vector<SafetensorsFile> ranks{rank({0, 3, 6}), rank({1, 4}), SafetensorsFile{}, rank({5, 2})};
  EXPECT_TRUE(torch::equal(merge_predictions(ranks).tensor(), torch::arange(7) * 10));
  const std::vector<SafetensorsFile> stream{{{{"output", torch::tensor({5, 6})}}, {}},
                                            {{{"output", torch::tensor({1})}}, {}}};
  EXPECT_TRUE(torch::equal(merge_predictions(stream).tensor(), torch::tensor({5, 6, 1})));
  EXPECT_TRUE(merge_predictions({}).empty());
}

TEST(FlatValue, ComesBackInTheSameStructure) {
  const Value value = Value::map(
      {{"a.b[0]", Value::list({torch::ones({1}), Value::map({{"", torch::zeros({2})}})})}, {"c", torch::ones({3})}});
  const Value back = value_of(flat_value(value));
  EXPECT_EQ(back.entries()[0].first, "a.b[0]");
  EXPECT_EQ(back["a.b[0]"][1][""].tensor().numel(), 2);
  EXPECT_EQ(back["c"].tensor().numel(), 3);
  EXPECT_TRUE(value_of(flat_value(torch::ones({4}))).is_tensor());
  EXPECT_TRUE(value_of(flat_value(Value())).empty());
}

}  // namespace
}  // namespace cohort
