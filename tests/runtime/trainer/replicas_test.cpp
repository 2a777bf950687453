#include "replicas/replicas.hpp"

#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>
#include <cohort/module.hpp>
#include <cohort/trainer.hpp>

#include "copies/scatter.hpp"
#include "error_text.hpp"
#include "fake_runtime.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Script;
using testing::ScriptedRun;

TEST(PieceSizes, DifferByAtMostOneLargerOnesFirst) {
  EXPECT_THAT(piece_sizes(32, 2), ElementsAre(16, 16));
  EXPECT_THAT(piece_sizes(64, 4), ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(piece_sizes(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(piece_sizes(2, 3), ElementsAre(1, 1));
}

TEST(Scatter, CutsEveryTensorOfAnyNesting) {
  const auto x = torch::arange(10).reshape({5, 2});
  const Batch batch =
      Value::list({x, Value::map({{"mask", torch::arange(5)}, {"rate", torch::tensor(0.5)}, {"none", {}}})});
  const std::vector<int64_t> sizes{3, 2};
  const auto pieces = scatter(batch, sizes);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_TRUE(at::equal(pieces[0][0], x.slice(0, 0, 3)));
  EXPECT_TRUE(at::equal(pieces[1][0], x.slice(0, 3, 5)));
  EXPECT_TRUE(at::equal(pieces[1][1]["mask"], torch::tensor({3, 4})));
  EXPECT_FLOAT_EQ(pieces[1][1]["rate"].tensor().item<float>(), 0.5F);
  EXPECT_TRUE(pieces[1][1]["none"].empty());
  EXPECT_EQ(pieces[1][0].tensor().data_ptr(), x.slice(0, 3, 5).data_ptr()) << "pieces are views";
}

TEST(Scatter, NamesATensorWithAnotherNumberOfRows) {
  const Batch batch = Value::list({torch::zeros({4, 2}), Value::map({{"mask", torch::zeros({3})}})});
  const std::vector<int64_t> sizes{2, 2};
  const auto text = error_text<UserError>([&] { scatter(batch, sizes); });
  EXPECT_THAT(text, HasSubstr("batch[1][\"mask\"] has 3 rows"));
  EXPECT_THAT(text, HasSubstr("4 samples"));
}

TEST(Gather, GivesLeavesThatStandForTheTensors) {
  const auto weight = torch::ones({2}, torch::requires_grad());
  const std::vector<Output> outputs{Value::map({{"y", weight * 2}, {"n", torch::tensor(1)}}),
                                    Value::map({{"y", weight * 3}, {"n", torch::tensor(2)}})};
  const Gathered gathered = gather(outputs);
  ASSERT_EQ(gathered.list.size(), 2u);
  EXPECT_TRUE(gathered.list[0]["y"].tensor().is_leaf());
  (gathered.list[0]["y"].tensor().sum() + 5 * gathered.list[1]["y"].tensor().sum()).backward();
  EXPECT_FLOAT_EQ(gathered.leaves[1][0].grad()[0].item<float>(), 5.0F);
  EXPECT_FALSE(weight.grad().defined()) << "the hook's backward ends at the leaves";
  EXPECT_EQ(gathered.list[1]["n"].tensor().item<int>(), 2);
}

TEST(Gather, RefusesOutputsThatAreBuiltDifferently) {
  const std::vector<Output> outputs{torch::zeros({1}), Value::list({torch::zeros({1})})};
  EXPECT_THAT(error_text<UserError>([&] { gather(outputs); }), HasSubstr("piece 1 of the batch gave a list of 1"));
}

/// y = w x; remembers where and with what its steps were called.
struct Line final : ModuleFor<Line> {
  Line() : w(register_parameter("w", torch::ones({1}))), bias(register_buffer("bias", torch::zeros({1}))) {}

  Output training_step(const Batch& batch, int64_t) override {
    if (during) during(*this);
    const at::Tensor loss = (w * batch.tensor()).mean();
    log("loss", loss);
    return loss;
  }
  void validation_step(const Batch& batch, int64_t) override {
    EXPECT_FALSE(at::GradMode::is_enabled());
    EXPECT_FALSE(is_training());
    log("pieces", static_cast<double>(batch.batch_size()));
    to_step_end(batch);
  }
  void validation_step_end(const Output& outputs) override {
    double whole = 0;
    for (const Value& piece : outputs.items()) whole += static_cast<double>(piece.batch_size());
    log("whole", whole);
    log("replicas", static_cast<double>(outputs.size()));
  }
  void test_step(const Batch& batch, int64_t) override { to_step_end(w * batch.tensor()); }
  void test_step_end(const Output& outputs) override {
    double sum = 0;
    for (const Value& piece : outputs.items()) sum += piece.tensor().sum().item<double>();
    log("sum", sum);
    log("replicas", static_cast<double>(outputs.size()));
  }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  std::shared_ptr<Line> make() const override {
    auto made = std::make_shared<Line>();
    made->during = during;
    return made;
  }

  at::Tensor w, bias;
  std::function<void(Line&)> during;
};

struct Rows final : DataModule {
  Loader train() override { return {.dataset = rows(samples), .batch_size = batch_size}; }
  Loader validation() override { return {.dataset = rows(5), .batch_size = 5}; }
  Loader test() override { return {.dataset = rows(5), .batch_size = 5}; }
  static std::shared_ptr<Dataset> rows(int64_t count) {
    return std::make_shared<TensorDataset>(std::vector{torch::arange(count).to(torch::kFloat)});
  }
  int64_t samples = 7, batch_size = 7;
};

struct Ends {
  double weight = 0;
  Metrics metrics;
};

Ends fit(int replicas, const std::function<void(Line&)>& during = {}, Rows data = {}, bool deterministic = false) {
  ScriptedRun run([&](Script& s) {
    s.selection.strategy = StrategySpec("dp");
    s.selection.replicas = replicas;
    s.options.max_epochs = 1;
    s.options.deterministic = deterministic;
  });
  Line net;
  net.during = during;
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
  return {net.w.item<double>(), record.metrics};
}

TEST(Replicas, ThreeOfThemGiveTheStepAndTheMetricsOfTheWholeBatch) {
  const Ends one = fit(1), three = fit(3), in_turn = fit(3, {}, {}, /*deterministic=*/true);
  // 7 samples: 3, 2, 2. The mean of 0 .. 6 is 3.
  EXPECT_NEAR(one.weight, 1 - 0.1 * 3, 1e-6);
  for (const Ends& ends : {three, in_turn}) {
    EXPECT_NEAR(ends.weight, one.weight, 1e-6);
    EXPECT_NEAR(ends.metrics.at("loss"), 3.0, 1e-6);
    EXPECT_EQ(ends.metrics.at("whole"), 5);
    EXPECT_EQ(ends.metrics.at("replicas"), 3);
    EXPECT_NEAR(ends.metrics.at("pieces"), (2 * 2 + 2 * 2 + 1 * 1) / 5.0, 1e-6);
  }
  EXPECT_EQ(one.metrics.at("replicas"), 1) << "a list of one where there is one replica";
}

TEST(Replicas, GiveTestStepEndThePiecesOfTheWholeBatch) {
  for (const int replicas : {1, 3}) {
    ScriptedRun run([&](Script& s) {
      s.selection.strategy = StrategySpec("dp");
      s.selection.replicas = replicas;
    });
    Line net;
    Rows data;
    RunRecord record;
    const Metrics means = Trainer(run.runtime(), record).test(net, data);
    EXPECT_EQ(means.at("replicas"), replicas);
    EXPECT_EQ(means.at("sum"), 0 + 1 + 2 + 3 + 4);
  }
}

TEST(Replicas, ALastSmallerBatchRunsOnFewerOfThem) {
  Rows data;
  data.samples = 4;
  data.batch_size = 3;
  const Ends ends = fit(3, {}, data);
  EXPECT_NEAR(ends.weight, 1 - 0.1 * 1 - 0.1 * 3, 1e-6);
}

TEST(Replicas, ABatchThatIsSmallerFromTheStartIsRefused) {
  Rows data;
  data.batch_size = 2;
  const auto text = error_text<UserError>([&] { fit(3, {}, data); });
  EXPECT_THAT(text, HasSubstr("2 samples"));
  EXPECT_THAT(text, HasSubstr("3 replicas"));
}

TEST(Replicas, AnErrorNamesItsReplica) {
  const auto text = error_text<Error>([] {
    fit(2, [](Line& net) {
      if (net.bias.item<float>() == 0) throw UserError("no");
    });
  });
  EXPECT_EQ(text, "training_step, epoch 0, batch 0, rank 0, replica 0: no\nbatch: Float [4]");
}

TEST(Replicas, WritingWeightsThatOthersUseIsRefused) {
  const auto text = error_text<Error>([] {
    fit(2, [](Line& net) {
      const at::NoGradGuard no_grad;
      net.w.add_(1);
    });
  });
  EXPECT_THAT(text, HasSubstr("wrote to parameter 'w'"));
}

struct Uncloneable final : Module {
  Output training_step(const Batch&, int64_t) override { return {}; }
  Optimizers configure_optimizers() override { return torch::optim::SGD({torch::zeros({1})}, 0.1); }
};

TEST(Replicas, AModuleThatCannotBeClonedIsRefusedWithTheReason) {
  ScriptedRun run([](Script& s) {
    s.selection.strategy = StrategySpec("dp");
    s.selection.replicas = 2;
  });
  Uncloneable net;
  const auto text = error_text<UserError>([&] { Replicas(run.runtime(), net); });
  EXPECT_THAT(text, HasSubstr("'dp' needs a clone"));
  EXPECT_THAT(text, HasSubstr("cohort::ModuleFor"));
}

}  // namespace
}  // namespace cohort
