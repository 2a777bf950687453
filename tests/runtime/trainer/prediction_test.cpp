#include "loop/prediction.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
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
