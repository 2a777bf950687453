// The hooks around a module's steps: their order, and what may be done in them.
#include <gmock/gmock.h>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string at_batch(const std::string& hook, int64_t index) {
  return hook + " " + std::to_string(index);
}

/// Notes its hooks; trains one weight on numbers.
struct NotingModule final : ModuleFor<NotingModule> {
  NotingModule() : w(register_parameter("w", torch::ones({1}))) {}

  Output training_step(const Batch& batch, int64_t) override {
    note("training_step");
    return (w * batch.tensor() - 1).square().mean();
  }
  void validation_step(const Batch&, int64_t) override { note("validation_step"); }
  void test_step(const Batch&, int64_t) override { note("test_step"); }
  Output predict_step(const Batch& batch, int64_t) override { return w * batch.tensor(); }
  Optimizers configure_optimizers() override {
    note("configure_optimizers");
    return torch::optim::SGD(parameters(), 0.1);
  }

  void setup(Stage stage) override { note("setup " + std::to_string(static_cast<int>(stage))); }
  void teardown(Stage stage) override { note("teardown " + std::to_string(static_cast<int>(stage))); }
  void on_fit_start() override { note("fit_start"); }
  void on_fit_end() override { note("fit_end"); }
  void on_train_start() override { note("train_start"); }
  void on_train_end() override { note("train_end"); }
  void on_train_epoch_start(int64_t epoch) override { note(at_batch("epoch_start", epoch)); }
  void on_train_epoch_end(int64_t epoch) override { note(at_batch("epoch_end", epoch)); }
  void on_train_batch_start(const Batch&, int64_t index) override { note(at_batch("batch_start", index)); }
  void on_train_batch_end(const Batch&, int64_t index) override { note(at_batch("batch_end", index)); }
  void on_before_backward(const at::Tensor& loss) override {
    EXPECT_TRUE(loss.requires_grad());
    EXPECT_FALSE(w.grad().defined());
    note("before_backward");
  }
  void on_after_backward() override {
    EXPECT_TRUE(w.grad().defined());
    note("after_backward");
  }
  void on_before_optimizer_step(size_t optimizer) override {
    note(at_batch("before_step", static_cast<int64_t>(optimizer)));
    before = w.detach().clone();
  }
  void on_before_zero_grad(size_t optimizer) override {
    note(at_batch("before_zero_grad", static_cast<int64_t>(optimizer)));
    EXPECT_TRUE(w.grad().defined());
    EXPECT_FALSE(torch::equal(w.detach(), before)) << "the optimizer has stepped";
  }
  void on_validation_start() override { note("validation_start"); }
  void on_validation_epoch_start() override { note("validation_epoch_start"); }
  void on_validation_batch_start(const Batch&, int64_t index) override {
    EXPECT_FALSE(is_training());
    note(at_batch("validation_batch_start", index));
  }
  void on_validation_batch_end(const Batch&, int64_t index) override { note(at_batch("validation_batch_end", index)); }
  void on_validation_epoch_end() override {
    note("validation_epoch_end");
    log("last", 7);
  }
  void on_validation_end(const Metrics& means) override {
    note("validation_end");
    EXPECT_EQ(means.at("last"), 7);
  }
  void on_test_start() override { note("test_start"); }
  void on_test_epoch_start() override { note("test_epoch_start"); }
  void on_test_batch_start(const Batch&, int64_t index) override { note(at_batch("test_batch_start", index)); }
  void on_test_batch_end(const Batch&, int64_t index) override { note(at_batch("test_batch_end", index)); }
  void on_test_epoch_end() override { note("test_epoch_end"); }
  void on_test_end(const Metrics&) override { note("test_end"); }
  void on_predict_start() override { note("predict_start"); }
  void on_predict_epoch_start() override { note("predict_epoch_start"); }
  void on_predict_batch_start(const Batch&, int64_t index) override { note(at_batch("predict_batch_start", index)); }
  void on_predict_batch_end(const Batch&, int64_t index) override { note(at_batch("predict_batch_end", index)); }
  void on_predict_epoch_end() override { note("predict_epoch_end"); }
  void on_predict_end() override { note("predict_end"); }
  void on_exception(const std::exception& error) override { note(std::string("exception ") + error.what()); }

  void note(const std::string& hook) {
    seen.push_back(hook);
    if (hook == fails_in) throw UserError("no");
  }

  at::Tensor w, before;
  std::vector<std::string> seen;
  std::string fails_in;
};

struct Data final : DataModule {
  Loader train() override { return {.dataset = Numbers::numbers(2), .batch_size = 2}; }
  Loader validation() override { return {.dataset = Numbers::numbers(2), .batch_size = 2}; }
  Loader test() override { return validation(); }
  Loader predict() override { return validation(); }
};

struct HookedRun {
  ScriptedRun scripted{[](Script& s) { s.options.max_epochs = 1; }};
  NotingModule net;
  Data data;
  RunRecord record;
  Trainer trainer{scripted.runtime(), record};
};

TEST(ModuleHooks, OfAFitComeInOrder) {
  HookedRun run;
  run.trainer.fit(run.net, run.data);
  EXPECT_THAT(run.net.seen, ElementsAre("setup 0", "fit_start", "configure_optimizers", "train_start", "epoch_start 0",
                                        "batch_start 0", "training_step", "before_backward", "after_backward",
                                        "before_step 0", "before_zero_grad 0", "batch_end 0", "validation_start",
                                        "validation_epoch_start", "validation_batch_start 0", "validation_step",
                                        "validation_batch_end 0", "validation_epoch_end", "validation_end",
                                        "epoch_end 0", "train_end", "fit_end", "teardown 0"));
  EXPECT_EQ(run.record.metrics.at("last"), 7);
}

TEST(ModuleHooks, OfAPassOutsideOfAFitComeInOrder) {
  HookedRun run;
  run.trainer.validate(run.net, run.data);
  EXPECT_THAT(run.net.seen, ElementsAre("setup 1", "validation_start", "validation_epoch_start",
                                        "validation_batch_start 0", "validation_step", "validation_batch_end 0",
                                        "validation_epoch_end", "validation_end", "teardown 1"));
  run.net.seen.clear();
  run.trainer.test(run.net, run.data);
  EXPECT_THAT(run.net.seen, ElementsAre("setup 2", "test_start", "test_epoch_start", "test_batch_start 0", "test_step",
                                        "test_batch_end 0", "test_epoch_end", "test_end", "teardown 2"));
  run.net.seen.clear();
  run.trainer.predict(run.net, run.data);
  EXPECT_THAT(run.net.seen, ElementsAre("setup 3", "predict_start", "predict_epoch_start", "predict_batch_start 0",
                                        "predict_batch_end 0", "predict_epoch_end", "predict_end", "teardown 3"));
}

TEST(ModuleHooks, OfStepsByHandComeAsWell) {
  struct ByHand final : ModuleFor<ByHand> {
    ByHand() : w(register_parameter("w", torch::ones({1}))) {}
    bool automatic_optimization() const override { return false; }
    Output training_step(const Batch& batch, int64_t) override {
      manual_backward((w * batch.tensor()).mean());
      step();
      return {};
    }
    Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
    void on_before_backward(const at::Tensor&) override { seen += "b"; }
    void on_after_backward() override { seen += "a"; }
    void on_before_optimizer_step(size_t) override { seen += "s"; }
    void on_before_zero_grad(size_t) override { seen += "z"; }
    at::Tensor w;
    std::string seen;
  };
  ScriptedRun scripted([](Script& s) { s.options.max_epochs = 1; });
  ByHand net;
  Data data;
  RunRecord record;
  Trainer(scripted.runtime(), record).fit(net, data);
  EXPECT_EQ(net.seen, "basz");
}

TEST(ModuleHooks, NameTheirPlaceIfTheyFail) {
  const auto text_of = [](const std::string& hook) {
    HookedRun run;
    run.net.fails_in = hook;
    return error_text<UserError>([&] { run.trainer.fit(run.net, run.data); });
  };
  EXPECT_EQ(text_of("setup 0"), "setup, rank 0: no");
  EXPECT_EQ(text_of("train_start"), "on_train_start, epoch 0, rank 0: no");
  EXPECT_EQ(text_of("epoch_start 0"), "on_train_epoch_start, epoch 0, rank 0: no");
  EXPECT_EQ(text_of("batch_end 0"), "on_train_batch_end, epoch 0, batch 0, rank 0: no\nbatch: Float [2]");
  EXPECT_EQ(text_of("before_backward"), "on_before_backward, epoch 0, batch 0, rank 0: no");
  EXPECT_EQ(text_of("validation_batch_end 0"),
            "on_validation_batch_end, epoch 0, batch 0, rank 0: no\nbatch: Float [2]");
  EXPECT_EQ(text_of("teardown 0"), "teardown, rank 0: no");
}

TEST(ModuleHooks, HearOfAnException) {
  HookedRun run;
  run.net.fails_in = "training_step";
  EXPECT_THROW(run.trainer.fit(run.net, run.data), UserError);
  EXPECT_THAT(run.net.seen.back(), HasSubstr("exception training_step, epoch 0, batch 0, rank 0: no"));
  HookedRun pass;
  pass.net.fails_in = "test_step";
  EXPECT_THROW(pass.trainer.test(pass.net, pass.data), UserError);
  EXPECT_THAT(pass.net.seen.back(), HasSubstr("exception test_step, batch 0, rank 0: no"));
}

TEST(ModuleHooks, LayersMadeInSetupAreTrained) {
  struct Late final : ModuleFor<Late> {
    void setup(Stage) override {
      if (fc.is_empty()) fc = register_module("fc", torch::nn::Linear(1, 1));
    }
    Output training_step(const Batch& batch, int64_t) override { return fc(batch.tensor().unsqueeze(1)).mean(); }
    Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.5); }
    torch::nn::Linear fc{nullptr};
  };
  ScriptedRun scripted([](Script& s) { s.options.max_epochs = 1; });
  torch::manual_seed(1);
  Late net;
  Data data;
  RunRecord record;
  Trainer(scripted.runtime(), record).fit(net, data);
  torch::manual_seed(1);
  torch::nn::Linear untouched(1, 1);
  EXPECT_FLOAT_EQ(net.fc->bias.item<float>(), untouched->bias.item<float>() - 0.5F);
}

TEST(ModuleHooks, CallbacksOfTheModuleAreCalled) {
  struct Counts final : Callback {
    std::string name() const override { return "counts"; }
    void on_step_end(Fit&) override { ++steps; }
    int steps = 0;
  };
  struct Net final : ModuleFor<Net> {
    Net() : w(register_parameter("w", torch::ones({1}))) {}
    Output training_step(const Batch& batch, int64_t) override { return (w * batch.tensor()).mean(); }
    Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
    std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return {counts}; }
    at::Tensor w;
    std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  };
  ScriptedRun scripted([](Script& s) { s.options.max_epochs = 3; });
  Net net;
  Data data;
  RunRecord record;
  Trainer(scripted.runtime(), record).fit(net, data);
  EXPECT_EQ(net.counts->steps, 3);
}

/// Counts its batches in a member, which is no tensor.
struct CountingModule final : ModuleFor<CountingModule> {
  CountingModule() : w(register_parameter("w", torch::ones({1}))) {}
  Output training_step(const Batch& batch, int64_t) override { return (w * batch.tensor()).mean(); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  void on_train_start() override { at_start = batches; }
  void on_train_batch_end(const Batch&, int64_t) override { ++batches; }
  void save_state(CallbackState& state) const override { state.set("batches", batches); }
  void load_state(const CallbackState& state) override { batches = state.number("batches"); }
  at::Tensor w;
  double batches = 0, at_start = -1;
};

TEST(ModuleState, GoesOnInAResumedTraining) {
  TemporaryFolder folder;
  const auto count_after = [&](int64_t epochs, double at_start) {
    ScriptedRun scripted([&](Script& s) {
      s.options.max_epochs = epochs;
      s.options.checkpoint_dir = folder.path();
      s.options.resume = "auto";
    });
    CountingModule net;
    Data data;
    RunRecord record;
    Trainer(scripted.runtime(), record).fit(net, data);
    EXPECT_EQ(net.at_start, at_start);
    return net.batches;
  };
  EXPECT_EQ(count_after(2, 0), 2);
  EXPECT_EQ(count_after(5, 2), 5);
}

}  // namespace
}  // namespace cohort::testing
