// Messages that say which hook of the user's code has failed: for a place alone, and in a training.
#include <cohort/torch_error.hpp>

#include "failure/hook_place.hpp"

#include <gmock/gmock.h>

#include "failure/failure.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(HookPlace, NamesHookEpochBatchRankAndTypes) {
  const Batch batch = Value::list({torch::zeros({32, 1, 28, 28}), torch::zeros({32}, torch::kShort)});
  const HookPlace place{.hook = "training_step", .epoch = 0, .index = 17, .rank = 1, .batch = &batch};
  const auto text = error_text<TrainingFailed>(
      [&] { in_hook(place, [] { TORCH_CHECK(false, "expected scalar type Long but found Short"); }); });
  EXPECT_EQ(text,
            "training_step, epoch 0, batch 17, rank 1: expected scalar type Long but found Short\n"
            "batch: [0] Float [32, 1, 28, 28], [1] Short [32]");
}

TEST(HookPlace, NamesMorePiecesIfMemoryIsUsedUp) {
  const auto text_with = [](int64_t more_pieces) {
    const HookPlace place{.hook = "training_step", .more_pieces = more_pieces};
    return error_text<UserError>(
        [&] { in_hook(place, [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "tried to allocate 1 GiB"); }); });
  };
  EXPECT_THAT(text_with(2),
              HasSubstr("tried to allocate 1 GiB; give --pieces=2, which trains on each batch in so many"));
  EXPECT_THAT(text_with(6), HasSubstr("give --pieces=6,"));
  EXPECT_THAT(text_with(0), HasSubstr("; choose a smaller batch or --strategy=sharded"));
}

TEST(OutOfMemory, IsFoundInWhatAHookThrows) {
  const auto is_found = [](const auto& fail) {
    try {
      in_hook({.hook = "h"}, fail);
    } catch (const std::exception& error) {
      return is_out_of_memory(error);
    }
    return false;
  };
  EXPECT_TRUE(is_found([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "tried to allocate 1 GiB"); }));
  EXPECT_TRUE(is_found([] { TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory"); }));
  EXPECT_TRUE(is_found([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(is_found([] {
    throw std::runtime_error("The following operation failed in the TorchScript interpreter.\nCUDA out of memory");
  }));
  EXPECT_FALSE(is_found([] { TORCH_CHECK(false, "shapes differ"); }));
  EXPECT_FALSE(is_found([] { throw std::runtime_error("this dataset is out of memory cards"); }));
}

TEST(HookPlace, IsToldWhileTheHookRuns) {
  const host::ActivityWatch watch;
  const auto inside = [&] { return watch.text(); };
  const HookPlace place{.hook = "h", .callback = "c", .epoch = 1, .index = 131, .rank = 2, .replica = 3};
  EXPECT_EQ(in_hook(place, inside), "h of callback 'c', epoch 1, batch 131, rank 2, replica 3");
  EXPECT_EQ(in_hook({.hook = "outer"}, [&] { return in_hook({.hook = "inner"}, inside) + inside(); }), "innerouter");
  EXPECT_EQ(inside(), "");
}

TEST(HookPlace, OfEveryPartOfAStepIsTold) {
  struct Told final : Callback {
    std::string name() const override { return "told"; }
    void on_before_backward(Fit&, const at::Tensor& loss) override {
      loss.register_hook([this](const at::Tensor&) { in_backward = watch.text(); });
    }
    void on_train_epoch_start(Fit&) override { at_start = watch.text(); }
    const host::ActivityWatch watch;
    std::string in_backward, at_start;
  };
  const auto told = std::make_shared<Told>();
  Training run;
  std::string in_step;
  run.net.during = [&] { in_step = told->watch.text(); };
  run.fit({told});
  EXPECT_EQ(told->at_start, "on_train_epoch_start of callback 'told', epoch 0, rank 0");
  EXPECT_EQ(in_step, "training_step, epoch 0, batch 1, rank 0");
  EXPECT_EQ(told->in_backward, "backward, epoch 0, batch 1, rank 0");
}

TEST(HookPlace, ShowsEveryKindOfBatch) {
  const auto second_line = [](const Batch& batch) {
    const HookPlace place{.hook = "h", .batch = &batch};
    const auto text = error_text<UserError>([&] { in_hook(place, [] { throw UserError("no"); }); });
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(second_line(torch::zeros({2}, torch::kLong)), "batch: Long [2]");
  EXPECT_EQ(second_line(Value()), "batch: nothing");
  EXPECT_EQ(second_line(Value::map({{"x", Value::list({torch::zeros({}), at::Tensor()})}, {"y", Value()}})),
            "batch: [\"x\"][0] Float [], [\"x\"][1] undefined, [\"y\"] nothing");
  const auto many = second_line(Value::list(Value::List(20, torch::zeros({1}))));
  EXPECT_THAT(many, HasSubstr("[15] Float [1], and 4 more"));
}

TEST(HookPlace, KeepsTheKindOfTheException) {
  const auto failure_of = [](const auto& throws) {
    try {
      in_hook({.hook = "h", .rank = 2}, throws);
    } catch (...) {
      return current_failure();
    }
    return Failure{};
  };
  const auto user = failure_of([] { throw UserError("a"); });
  EXPECT_EQ(user.exit_code, 2);
  EXPECT_EQ(user.message, "h, rank 2: a");
  EXPECT_EQ(user.type, "UserError");
  const auto other = failure_of([] { throw std::runtime_error("b"); });
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(other.message, "h, rank 2: b");
  EXPECT_EQ(other.type, "Exception");
  EXPECT_EQ(failure_of([] { TORCH_CHECK(false, "c"); }).type, "LibTorchError");
  EXPECT_EQ(failure_of([] { throw PeerFailed("d"); }).message, "d");
  EXPECT_EQ(failure_of([] { throw 42; }).message, "h, rank 2: an exception of type int");
  EXPECT_EQ(failure_of([] { throw std::string("e"); }).exit_code, 1);
  EXPECT_THROW(in_hook({.hook = "h"}, [] { throw RanksNeeded{"f"}; }), RanksNeeded);
  EXPECT_THROW(in_hook({.hook = "h"}, [] { throw Interrupted{15}; }), Interrupted);
}

TEST(HookPlace, TheUsersOwnExceptionIsNested) {
  struct Mine final : std::logic_error {
    using std::logic_error::logic_error;
  };
  try {
    in_hook({.hook = "h"}, [] { throw Mine("x"); });
    FAIL();
  } catch (const TrainingFailed& failed) {
    EXPECT_THROW(std::rethrow_if_nested(failed), Mine);
  }
}

TEST(HookPlace, IsNamedOnce) {
  const auto text = error_text<UserError>(
      [] { in_hook({.hook = "outer"}, [] { in_hook({.hook = "inner"}, [] { throw UserError("no"); }); }); });
  EXPECT_EQ(text, "inner: no");
}

TEST(HookPlace, OfAStepIsThatOfItsBatch) {
  Training run([](Options& o) { o.max_epochs = 2; });
  int calls = 0;
  run.net.during = [&] {
    if (++calls == 4) throw std::runtime_error("corrupt");
  };
  const auto text = error_text<TrainingFailed>([&] { run.fit({}); });
  EXPECT_EQ(text, "training_step, epoch 1, batch 1, rank 0: corrupt\nbatch: Float [3]");
}

TEST(HookPlace, OfAValidationIsThatOfItsBatch) {
  Training run;
  int calls = 0;
  run.net.in_validation = [&] {
    if (++calls == 2) throw UserError("corrupt");
  };
  EXPECT_EQ(error_text<UserError>([&] { run.fit({}); }),
            "validation_step, epoch 0, batch 1, rank 0: corrupt\nbatch: Float [2]");
}

TEST(HookPlace, OutsideOfAFitHasNoEpoch) {
  Training run;
  run.fit({});
  run.net.in_validation = [] { throw UserError("corrupt"); };
  const auto text =
      error_text<UserError>([&] { Trainer(run.scripted.runtime(), run.record).validate(run.net, run.data); });
  EXPECT_THAT(text, StartsWith("validation_step, batch 0, rank 0: corrupt\n"));
}

struct Thrower final : Callback {
  explicit Thrower(std::string moment) : moment_(std::move(moment)) {}
  std::string name() const override { return "thrower"; }
  void on_fit_start(Fit&) override { at("on_fit_start"); }
  void on_train_batch_end(Fit&, const Batch&) override { at("on_train_batch_end"); }
  void on_before_optimizer_step(Fit&, size_t) override { at("on_before_optimizer_step"); }
  void on_validation_start(Fit&) override { at("on_validation_start"); }

 private:
  void at(const std::string& moment) const {
    if (moment == moment_) throw std::runtime_error("no");
  }
  std::string moment_;
};

TEST(HookPlace, OfACallbackNamesIt) {
  const auto text_of = [](const std::string& moment) {
    Training run;
    return error_text<TrainingFailed>([&] { run.fit({std::make_shared<Thrower>(moment)}); });
  };
  EXPECT_EQ(text_of("on_fit_start"), "on_fit_start of callback 'thrower', epoch 0, rank 0: no");
  EXPECT_EQ(text_of("on_train_batch_end"),
            "on_train_batch_end of callback 'thrower', epoch 0, batch 0, rank 0: no\nbatch: Float [3]");
  EXPECT_EQ(text_of("on_before_optimizer_step"),
            "on_before_optimizer_step of callback 'thrower', epoch 0, batch 0, rank 0: no");
  EXPECT_EQ(text_of("on_validation_start"), "on_validation_start of callback 'thrower', epoch 0, rank 0: no");
}

struct Broken final : ModuleFor<Broken> {
  Broken() : w(register_parameter("w", torch::ones({1}))) {}
  Output training_step(const Batch& batch, int64_t) override {
    if (hook == "backward") {
      auto loss = (w * batch.tensor()).square().mean();
      loss.backward();
      return loss;
    }
    return (w * batch.tensor()).mean();
  }
  Optimizers configure_optimizers() override {
    fail("configure_optimizers");
    return torch::optim::SGD(parameters(), 0.1);
  }
  Batch transfer_batch(const Batch& batch, c10::Device) override {
    fail("transfer_batch");
    return batch;
  }
  Output training_step_end(const Output& outputs) override {
    fail("training_step_end");
    return outputs[0];
  }
  void on_fit_start() override { fail("on_fit_start"); }
  void on_fit_end() override { fail("on_fit_end"); }
  void on_train_epoch_start(int64_t) override { fail("on_train_epoch_start"); }
  void on_train_epoch_end(int64_t) override { fail("on_train_epoch_end"); }
  void fail(const std::string& here) const {
    if (hook == here) throw UserError("no");
  }

  at::Tensor w;
  std::string hook;
};

std::string text_of_broken(const std::string& hook) {
  ScriptedRun run([](Script& s) { s.options.max_epochs = 1; });
  Broken net;
  net.hook = hook;
  Numbers data(3);
  data.evaluation = {};
  RunRecord record;
  return error_text<UserError>([&] { Trainer(run.runtime(), record).fit(net, data); });
}

TEST(HookPlace, OfEveryHookOfTheModuleIsNamed) {
  for (const std::string hook : {"on_fit_start", "configure_optimizers", "on_fit_end"}) {
    EXPECT_EQ(text_of_broken(hook), hook + ", rank 0: no");
  }
  for (const std::string hook : {"on_train_epoch_start", "on_train_epoch_end"}) {
    EXPECT_EQ(text_of_broken(hook), hook + ", epoch 0, rank 0: no");
  }
  EXPECT_EQ(text_of_broken("training_step_end"), "training_step_end, epoch 0, batch 0, rank 0: no");
  EXPECT_EQ(text_of_broken("transfer_batch"), "transfer_batch, epoch 0, batch 0, rank 0: no\nbatch: Float [3]");
}

TEST(HookPlace, BackwardInTheStepIsAnsweredWithTheWayOut) {
  const auto text = text_of_broken("backward");
  EXPECT_THAT(text, StartsWith("backward, epoch 0, batch 0, rank 0: "));
  EXPECT_THAT(text, HasSubstr("return the loss from training_step without calling backward() on it"));
}

TEST(HookPlace, AHookThatIsMissingNamesItself) {
  struct Empty final : Module {};
  ScriptedRun run;
  Empty net;
  Numbers data;
  RunRecord record;
  EXPECT_THAT(error_text<UserError>([&] { Trainer(run.runtime(), record).fit(net, data); }),
              HasSubstr("has no configure_optimizers; override cohort::Optimizers configure_optimizers()"));
}

}  // namespace
}  // namespace cohort::testing
