#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <csignal>
#include <fstream>

#include <cohort/host/error.hpp>
#include <cohort/safetensors.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "temporary_folder.hpp"
#include "weights/weights_digest.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Script;
using testing::ScriptedRun;
using ::testing::SizeIs;
using testing::TemporaryFolder;

/// Draws from the generator in every step and in validation, has running statistics, and a learning rate that falls.
struct Learner final : ModuleFor<Learner> {
  explicit Learner(int64_t width = 4)
      : fc1(register_module("fc1", torch::nn::Linear(1, width))),
        bn(register_module("bn", torch::nn::BatchNorm1d(width))),
        fc2(register_module("fc2", torch::nn::Linear(width, 1))) {}

  Output training_step(const Batch& batch, int64_t index) override {
    const at::Tensor x = batch.tensor();
    for (const float value : std::span(x.const_data_ptr<float>(), static_cast<size_t>(x.numel())))
      seen.push_back(value);
    indices.push_back(index);
    if (during) during();
    const auto hidden = torch::dropout(torch::relu(bn(fc1(x.unsqueeze(1)))), 0.5, /*train=*/true);
    auto loss = (fc2(hidden).squeeze(1) - x).square().mean();
    log("loss", loss);
    return loss;
  }
  void validation_step(const Batch& batch, int64_t) override {
    if (in_validation) in_validation();
    log("val", (fc2(bn(fc1(batch.tensor().unsqueeze(1)))) + torch::rand({1})).mean());
  }
  Optimizers configure_optimizers() override {
    adam = std::make_shared<torch::optim::Adam>(parameters(), 0.1);
    return Optimizers(adam);
  }
  void on_train_epoch_end(int64_t) override {
    auto& options = adam->param_groups()[0].options();
    options.set_lr(options.get_lr() * 0.7);
  }

  torch::nn::Linear fc1;
  torch::nn::BatchNorm1d bn;
  torch::nn::Linear fc2;
  std::shared_ptr<torch::optim::Adam> adam;
  std::function<void()> during, in_validation;
  std::vector<float> seen;
  std::vector<int64_t> indices;
};

/// Batches that draw from the generator when they are read.
class Drawn final : public StreamDataset {
 public:
  void start(const Shard&) override { left_ = 5; }
  std::optional<Batch> next() override {
    if (left_-- <= 0) return std::nullopt;
    return Batch(torch::rand({3}));
  }

 private:
  int64_t left_ = 0;
};

struct Numbers final : DataModule {
  explicit Numbers(int64_t samples = 17) {
    training = {.dataset = numbers(samples), .batch_size = 3, .shuffle = true};
    evaluation = {.dataset = numbers(4), .batch_size = 2};
  }
  static std::shared_ptr<Dataset> numbers(int64_t samples) {
    return std::make_shared<TensorDataset>(std::vector{torch::arange(samples).to(torch::kFloat) / 17});
  }
  Loader train() override { return training; }
  Loader validation() override { return evaluation; }
  Loader training, evaluation;
};

struct Outcome {
  std::vector<float> seen;
  std::vector<int64_t> indices;
  std::string digest;
  at::Tensor running_mean, generator;
  double lr = 0;
  uint64_t steps = 0;
  int64_t epochs = 0;
  Metrics metrics;
  bool interrupted = false;
};

struct Job {
  std::function<void(Options&)> options = [](Options&) {};
  std::function<void(Learner&)> prepare = [](Learner&) {};
  std::function<void(Numbers&)> data = [](Numbers&) {};
  std::function<void(Script&)> script = [](Script&) {};
};

Outcome train(const Job& job) {
  ScriptedRun run([&](Script& s) {
    s.options.max_epochs = 3;
    job.options(s.options);
    job.script(s);
  });
  torch::manual_seed(5);
  Learner net;
  job.prepare(net);
  Numbers data;
  job.data(data);
  RunRecord record;
  Outcome outcome;
  try {
    Trainer(run.runtime(), record).fit(net, data);
  } catch (const Interrupted&) {
    outcome.interrupted = true;
  }
  outcome.seen = net.seen;
  outcome.indices = net.indices;
  outcome.digest = weights_digest(net);
  outcome.running_mean = net.bn->running_mean.clone();
  outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
  outcome.lr = net.adam->param_groups()[0].options().get_lr();
  outcome.steps = record.steps_before + record.steps;
  outcome.epochs = record.epochs;
  outcome.metrics = record.metrics;
  return outcome;
}

template <class Values>
Values joined(Values first, const Values& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void expect_same_end(const Outcome& first, const Outcome& second, const Outcome& whole) {
  EXPECT_EQ(joined(first.seen, second.seen), whole.seen);
  EXPECT_EQ(joined(first.indices, second.indices), whole.indices);
  EXPECT_EQ(second.digest, whole.digest);
  EXPECT_TRUE(torch::equal(second.running_mean, whole.running_mean));
  EXPECT_TRUE(torch::equal(second.generator, whole.generator));
  EXPECT_EQ(second.lr, whole.lr);
  EXPECT_EQ(second.steps, whole.steps);
  EXPECT_EQ(second.epochs, whole.epochs);
  EXPECT_EQ(second.metrics, whole.metrics);
}

std::function<void()> signal_at_call(int call) {
  auto calls = std::make_shared<int>(0);
  return [=] {
    if (++*calls == call) std::raise(SIGTERM);
  };
}

/// Stops in each batch in turn (or every n-th), and goes on; the end is always that of the run that was not stopped.
void expect_resume_is_exact(const Job& job, int stride = 3) {
  const Outcome whole = train(job);
  ASSERT_GT(whole.steps, 4U);
  for (int stop = 1; stop <= static_cast<int>(whole.indices.size()); stop += stride) {
    SCOPED_TRACE("stopped in batch " + std::to_string(stop));
    const TemporaryFolder folder;
    Job with_files = job;
    with_files.options = [&](Options& o) {
      job.options(o);
      o.checkpoint_dir = folder.path();
      o.resume = "auto";
    };
    Job stopped = with_files;
    stopped.prepare = [&](Learner& net) {
      job.prepare(net);
      net.during = signal_at_call(stop);
    };
    const Outcome first = train(stopped);
    ASSERT_TRUE(first.interrupted);
    expect_same_end(first, train(with_files), whole);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Resume, IsTheUninterruptedRunBitByBitWhereverItWasStopped) {
  expect_resume_is_exact({}, /*stride=*/1);
}

TEST(Resume, IsExactUnderAccumulation) {
  expect_resume_is_exact({.options = [](Options& o) { o.accumulate_grad_batches = 4; }});
}

TEST(Resume, IsExactWithPrefetching) {
  expect_resume_is_exact({.data = [](Numbers& data) { data.training.prefetch = true; }});
}

TEST(Resume, IsExactWithValidationWithinTheEpoch) {
  expect_resume_is_exact(
      {.options = [](Options& o) { o.val_check_interval = BatchLimit{.count = 2, .fraction = {}}; }});
}

TEST(Resume, IsExactForAStreamThatDrawsItsBatches) {
  expect_resume_is_exact({.data = [](Numbers& data) { data.training = {.stream = std::make_shared<Drawn>()}; }});
}

TEST(Resume, IsExactForLimitedEpochs) {
  expect_resume_is_exact({.options = [](Options& o) {
    o.limit_train_batches = BatchLimit{.count = 3, .fraction = {}};
    o.max_steps = 7;
  }});
}

TEST(Resume, ASignalInAValidationLetsItBeRunAgain) {
  for (const bool within : {false, true}) {
    Job job;
    if (within) job.options = [](Options& o) { o.val_check_interval = BatchLimit{.count = 4, .fraction = {}}; };
    const Outcome whole = train(job);
    for (int call = 1; call <= 6; ++call) {
      SCOPED_TRACE(call);
      const TemporaryFolder folder;
      Job with_files = job;
      with_files.options = [&](Options& o) {
        job.options(o);
        o.checkpoint_dir = folder.path();
        o.resume = "auto";
      };
      Job stopped = with_files;
      stopped.prepare = [&](Learner& net) { net.in_validation = signal_at_call(call); };
      const Outcome first = train(stopped);
      ASSERT_TRUE(first.interrupted);
      expect_same_end(first, train(with_files), whole);
    }
  }
}

Job writing(
    const fs::path& folder, std::function<void(Options&)> more = [](Options&) {}) {
  return {.options = [=](Options& o) {
    o.checkpoint_dir = folder;
    more(o);
  }};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoints, ChangeNothingOfTheTrainingThatWritesThem) {
  const TemporaryFolder folder;
  const auto often = [](Options& o) { o.checkpoint_every_n_steps = 1; };
  const Outcome plain = train({}), writes = train(writing(folder.path(), often));
  expect_same_end({}, writes, plain);
}

TEST(Checkpoints, AreWrittenAtTheEndsOfEpochsAndTheNewestTwoAreKept) {
  const TemporaryFolder folder;
  train(writing(folder.path()));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000012", "step-00000018"));
  EXPECT_THAT(names_in(folder.path() / "step-00000018"),
              ElementsAre("manifest.json", "rank-0.safetensors", "shared.safetensors"));
}

TEST(Checkpoints, AreWrittenEveryNStepsToo) {
  const TemporaryFolder folder;
  train(writing(folder.path(), [](Options& o) {
    o.checkpoint_every_n_steps = 4;
    o.keep_checkpoints = 100;
  }));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000004", "step-00000006", "step-00000008", "step-00000012",
                                                   "step-00000016", "step-00000018"));
}

TEST(Checkpoints, HoldWeightsAndOptimizerByName) {
  const TemporaryFolder folder;
  const Outcome whole = train(writing(folder.path()));
  const auto file = read_safetensors(folder.path() / "step-00000018/shared.safetensors");
  ASSERT_TRUE(file.find("bn.running_mean"));
  EXPECT_TRUE(torch::equal(*file.find("bn.running_mean"), whole.running_mean));
  EXPECT_TRUE(file.find("fc1.weight"));
  EXPECT_TRUE(file.find("optimizer.exp_avg.fc1.weight"));
  EXPECT_EQ(file.find("optimizer.step.fc2.bias")->item<int64_t>(), 18);
}

TEST(Checkpoints, OfAFinishedTrainingLeaveNothingToDo) {
  const TemporaryFolder folder;
  const Outcome whole = train(writing(folder.path()));
  const Outcome again = train(writing(folder.path(), [](Options& o) { o.resume = "auto"; }));
  EXPECT_TRUE(again.seen.empty());
  EXPECT_EQ(again.digest, whole.digest);
  EXPECT_EQ(again.steps, whole.steps);
  EXPECT_EQ(again.epochs, 3);
}

TEST(Checkpoints, AreNotWrittenByADevelopmentRunOrOfALossThatIsNotFinite) {
  const TemporaryFolder folder;
  train(writing(folder.path(), [](Options& o) { o.fast_dev_run = 2; }));
  EXPECT_TRUE(names_in(folder.path()).empty());
  Job broken = writing(folder.path());
  broken.prepare = [](Learner& net) { net.fc2->bias.data().fill_(NAN); };
  EXPECT_THROW(train(broken), TrainingFailed);
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Checkpoints, AndTheOldOneStayWhereAnotherRankCannotWrite) {
  const TemporaryFolder folder;
  Job job = writing(folder.path());
  int failing = 0;
  job.script = [&](Script& s) {
    s.all_gather = [&](std::string own) {
      // The first checkpoint is complete when its folder is there; then rank 1's disk is full.
      if (own.empty() && !names_in(folder.path()).empty() &&
          fs::exists(folder.path() / "step-00000006/manifest.json") && ++failing > 2) {
        return std::vector<std::string>{own, "mcannot write rank-1.safetensors: No space left on device"};
      }
      return std::vector{std::move(own)};
    };
  };
  EXPECT_THAT(error_text<UserError>([&] { train(job); }),
              HasSubstr("rank 1: cannot write rank-1.safetensors: No space left on device"));
  const Outcome resumed = train(writing(folder.path(), [](Options& o) { o.resume = "auto"; }));
  EXPECT_EQ(resumed.digest, train({}).digest);
}

std::string mistake(const Job& job) {
  return error_text<UserError>([&] { train(job); });
}

/// A checkpoint in the middle of an epoch (step 8 of 6 per epoch), made anew for each change.
struct Stopped {
  Stopped() {
    Job job = writing(folder.path());
    job.prepare = [](Learner& net) { net.during = signal_at_call(8); };
    train(job);
    checkpoint = folder.path() / "step-00000008";
  }
  std::string resumed(std::function<void(Job&)> change = [](Job&) {}) const {
    Job job = writing(folder.path(), [](Options& o) { o.resume = "auto"; });
    change(job);
    return mistake(job);
  }
  TemporaryFolder folder;
  fs::path checkpoint;
};

void overwrite(const fs::path& file, std::streamoff at, char byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  stream.put(byte);
}

TEST(Resume, PassesOverADamagedCheckpointForAnOlderOne) {
  for (const char* name : {"shared.safetensors", "rank-0.safetensors"}) {
    const Stopped stopped;
    ASSERT_THAT(names_in(stopped.folder.path()), SizeIs(2));
    overwrite(stopped.checkpoint / name, -1, '\x55');
    Job job = writing(stopped.folder.path(), [](Options& o) { o.resume = "auto"; });
    const Outcome second = train(job);
    EXPECT_EQ(second.indices.size(), 12U);  // from step 6
    EXPECT_EQ(second.digest, train({}).digest);
  }
}

TEST(Resume, FromADamagedCheckpointThatIsNamedSaysWhatIsWrong) {
  const auto message = [](const std::function<void(const fs::path&)>& damage) {
    const Stopped stopped;
    damage(stopped.checkpoint);
    return stopped.resumed([&](Job& job) { job.options = [&](Options& o) { o.resume = stopped.checkpoint; }; });
  };
  EXPECT_EQ(message([](const fs::path&) {}), "");
  EXPECT_THAT(message([](const fs::path& c) { overwrite(c / "shared.safetensors", 200, '\x01'); }),
              HasSubstr("shared.safetensors is not as it was written"));
  EXPECT_THAT(message([](const fs::path& c) { fs::resize_file(c / "rank-0.safetensors", 100); }),
              HasSubstr("rank-0.safetensors is not as it was written: its 100 bytes"));
  EXPECT_THAT(message([](const fs::path& c) { fs::remove(c / "rank-0.safetensors"); }), HasSubstr("cannot read"));
  EXPECT_THAT(message([](const fs::path& c) { fs::resize_file(c / "manifest.json", 50); }),
              HasSubstr("is not the manifest of a checkpoint"));
  EXPECT_THAT(message([](const fs::path& c) { fs::remove(c / "manifest.json"); }),
              HasSubstr("there is no checkpoint in"));
  EXPECT_THAT(message([](const fs::path& c) {
                fs::remove_all(c);
                std::ofstream(c) << "file";
              }),
              HasSubstr("is a file"));
}

TEST(Resume, NeedsAllThatTheCheckpointWasMadeWith) {
  const Stopped stopped;
  EXPECT_THAT(stopped.resumed([](Job& job) {
    job.prepare = [](Learner& net) { net.register_parameter("extra", torch::zeros({2, 3})); };
  }),
              HasSubstr("another model; resume with the model that it was trained with\n"
                        "  extra: [2, 3] in the model, not in the checkpoint"));
  EXPECT_THAT(
      stopped.resumed([](Job& job) { job.prepare = [](Learner& net) { net.fc2->bias.set_data(torch::zeros({2})); }; }),
      HasSubstr("fc2.bias: [2] in the model, [1] in the checkpoint"));
  EXPECT_THAT(stopped.resumed([](Job& job) {
    job.prepare = [](Learner& net) { net.bn->running_mean.set_data(net.bn->running_mean.to(torch::kDouble)); };
  }),
              HasSubstr("bn.running_mean: Double in the model, Float in the checkpoint"));
  EXPECT_THAT(stopped.resumed([](Job& job) { job.data = [](Numbers& data) { data.training.batch_size = 2; }; }),
              HasSubstr("batch size: 3, now 2"));
  EXPECT_THAT(
      stopped.resumed([](Job& job) { job.data = [](Numbers& data) { data.training.dataset = Numbers::numbers(18); }; }),
      HasSubstr("training samples: 17, now 18"));
  EXPECT_THAT(stopped.resumed([&](Job& job) { job.script = [](Script& s) { s.options.seed = 9; }; }),
              HasSubstr("--seed: 0, now 9"));
}

TEST(Resume, WithAnotherNumberOfRanksNeedsTheEndOfAnEpoch) {
  const auto two_ranks = [](Job& job) {
    job.script = [](Script& s) {
      s.topology.world_size = 2;
      s.all_gather = [](std::string own) { return std::vector{own, own}; };
    };
  };
  const Stopped stopped;
  EXPECT_THAT(stopped.resumed(two_ranks),
              HasSubstr("in the middle of epoch 1 of 1 rank; with another number of ranks"));
  EXPECT_EQ(stopped.resumed([&](Job& job) {
    two_ranks(job);
    job.options = [&](Options& o) { o.resume = stopped.folder.path() / "step-00000006"; };
  }),
            "");
}

TEST(Resume, OptionsThatContradictEachOtherAreRefused) {
  const TemporaryFolder folder;
  const auto message = [](std::function<void(Options&)> options) { return mistake({.options = std::move(options)}); };
  EXPECT_THAT(message([](Options& o) { o.resume = "auto"; }), HasSubstr("--resume=auto goes on from --checkpoint-dir"));
  EXPECT_THAT(message([](Options& o) { o.checkpoint_every_n_steps = 3; }), HasSubstr("needs a folder"));
  EXPECT_THAT(message([&](Options& o) { o.resume = folder.path() / "none"; }), HasSubstr("there is no checkpoint in"));
}

TEST(Resume, AFreshTrainingLeavesTheCheckpointsOfAnotherAlone) {
  const Stopped stopped;
  EXPECT_THAT(mistake(writing(stopped.folder.path())), HasSubstr("holds checkpoints of another training"));
  EXPECT_THAT(names_in(stopped.folder.path()), SizeIs(2));
}

TEST(Resume, FromAnOlderCheckpointGoesItsOwnWay) {
  const TemporaryFolder folder;
  const Outcome whole = train(writing(folder.path(), [](Options& o) { o.keep_checkpoints = 9; }));
  const Outcome second =
      train(writing(folder.path(), [&](Options& o) { o.resume = folder.path() / "step-00000006/"; }));
  EXPECT_EQ(second.indices.size(), 12U);
  EXPECT_EQ(second.digest, whole.digest);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000012", "step-00000018"));
}

TEST(Resume, EachTrainingOfAProgramHasItsOwnCheckpoints) {
  const TemporaryFolder folder;
  const auto program = [&](int stop) {
    ScriptedRun run([&](Script& s) {
      s.options.max_epochs = 1;
      s.options.checkpoint_dir = folder.path();
      s.options.resume = "auto";
    });
    torch::manual_seed(5);
    Learner net;
    if (stop) net.during = signal_at_call(stop);
    Numbers data;
    RunRecord record;
    try {
      for (int fit = 0; fit < 2; ++fit) Trainer(run.runtime(), record).fit(net, data);
    } catch (const Interrupted&) {
    }
    return std::pair(weights_digest(net), net.indices.size());
  };
  program(8);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("fit-2", "step-00000006"));
  EXPECT_THAT(names_in(folder.path() / "fit-2"), ElementsAre("step-00000002"));
  const auto [digest, batches] = program(0);
  EXPECT_EQ(batches, 4U);
  fs::remove_all(folder.path());
  EXPECT_EQ(program(0).first, digest);
}

TEST(Session, SavesAndLoadsInALoopOfOnesOwn) {
  const TemporaryFolder folder;
  const auto steps = [](Session& session, Learner& net, int count) {
    for (int i = 0; i < count; ++i) {
      session.begin();
      session.backward(torch::dropout(net.fc1(torch::full({2, 1}, 0.5)), 0.5, true).square().mean());
      session.step();
    }
  };
  ScriptedRun run;
  Learner net;
  Session session(run.runtime(), net, net.configure_optimizers());
  steps(session, net, 3);
  run.script().strategy.values["kept/value"] = "some bytes";
  run.script().strategy.buckets["kept"][0] = std::vector<std::byte>(net.fc1->weight.nbytes(), std::byte{7});
  const host::StrategyState kept = run.script().strategy;
  session.save(folder.path() / "own");
  EXPECT_EQ(run.count("checkpoint"), 1);
  EXPECT_EQ(run.count("resume"), 1);
  steps(session, net, 2);

  ScriptedRun again;
  torch::manual_seed(77);
  Learner other;
  Session continued(again.runtime(), other, other.configure_optimizers());
  continued.load(folder.path() / "own");
  EXPECT_EQ(continued.steps(), 3U);
  EXPECT_EQ(again.script().strategy.values, kept.values);
  EXPECT_EQ(again.script().strategy.buckets, kept.buckets);
  steps(continued, other, 2);
  EXPECT_EQ(weights_digest(other), weights_digest(net));

  EXPECT_THAT(mistake({.options = [&](Options& o) { o.resume = folder.path() / "own"; }}),
              HasSubstr("go on from it with Session::load"));
}

}  // namespace
}  // namespace cohort
