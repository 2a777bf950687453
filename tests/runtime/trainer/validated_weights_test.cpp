// With --ema a checkpoint holds what was validated, and resumes with what was trained.
#include <gmock/gmock.h>

#include <cohort/callbacks.hpp>
#include <cohort/checkpoint.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/loop_state.hpp"
#include "forged_checkpoint.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

void averages(Options& o) {
  o.ema = 0.8;
}

std::map<std::string, at::Tensor> copy_of(const NamedTensors& tensors) {
  std::map<std::string, at::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
  return copies;
}

std::string last_of(const fs::path& folder) {
  return find_checkpoints(folder).at(0).path;
}

/// Trains four steps with an average. Has what was validated last, and the trained weights at that moment.
struct Averaged {
  Averaged() {
    Training run([&](Options& o) {
      o.max_epochs = 2;
      o.checkpoint_dir = folder.path();
      averages(o);
    });
    struct Trained final : Callback {
      std::map<std::string, at::Tensor>& weights;
      explicit Trained(std::map<std::string, at::Tensor>& given) : weights(given) {}
      std::string name() const override { return "trained"; }
      void on_step_end(Fit& fit) override { weights = copy_of(named_parameters_of(fit.module())); }
    };
    run.net.in_validation = [&] { validated = copy_of(named_parameters_of(run.net)); };
    run.fit({std::make_shared<Trained>(trained)});
    checkpoint = last_of(folder.path());
  }
  TemporaryFolder folder;
  fs::path checkpoint;
  std::map<std::string, at::Tensor> validated, trained;
};

TEST(ValidatedWeights, AreTheWeightsOfACheckpoint) {
  const Averaged run;
  std::map<std::string, at::Tensor> saved;
  for (const auto& [name, tensor] : read_safetensors(run.checkpoint / kSharedFile).tensors) saved[name] = tensor;
  Learner loaded;
  load_module(loaded, run.checkpoint);
  const auto of_loaded = copy_of(named_parameters_of(loaded));
  ASSERT_EQ(run.validated.size(), 6U);
  for (const auto& [name, tensor] : run.validated) {
    EXPECT_TRUE(saved.at(name).equal(tensor)) << name;
    EXPECT_TRUE(of_loaded.at(name).equal(tensor)) << name;
    EXPECT_TRUE(saved.at("cohort.trained/" + name).equal(run.trained.at(name))) << name;
    EXPECT_FALSE(tensor.equal(run.trained.at(name))) << name;
  }
}

/// Resumes for two more epochs with these options.
std::unique_ptr<Training> resumed(const fs::path& folder, const std::function<void(Options&)>& options) {
  return Stretch{folder, options}(4, true, {});
}

TEST(ValidatedWeights, GiveWayToTrainedOnesWithoutAnAverage) {
  const Averaged run;
  const TemporaryFolder plain;
  Stretch{plain.path()}(2, false, {});
  const auto left_out = resumed(run.folder.path(), [](Options&) {});
  EXPECT_EQ(weights_digest(left_out->net), weights_digest(Stretch{plain.path()}(4, true, {})->net));
}

TEST(ValidatedWeights, BeginAfterTheNextStepIfTheyWereNone) {
  const TemporaryFolder plain;
  Stretch{plain.path()}(2, false, {});
  const auto average = std::make_shared<WeightAverage>(0.0);
  const auto run = Stretch{plain.path()}(4, true, {average});
  const TemporaryFolder whole;
  EXPECT_EQ(weights_digest(run->net), weights_digest(Stretch{whole.path()}(4, false, {})->net));
}

TEST(ValidatedWeights, OfFormat2AreResumed) {
  const Averaged run;
  const fs::path older = run.folder.path() / "older/step-00000004";
  fs::create_directories(older.parent_path());
  fs::copy(run.checkpoint, older, fs::copy_options::recursive);
  forge(older, kSharedFile, [&](NamedTensors& tensors) {
    std::erase_if(tensors, [&](const auto& item) { return run.validated.contains(item.first); });
    for (auto& [name, tensor] : tensors) {
      if (policy_of(name) == StatePolicy::kTrained) name = name.substr(name.find('/') + 1);
    }
    size_t place = 0;
    Learner order;
    for (const auto& [name, parameter] : named_parameters_of(order)) {
      tensors.emplace_back("cohort.callbacks/weight_average/" + std::to_string(place++), run.validated.at(name));
    }
  });
  EXPECT_EQ(weights_digest(resumed(older.parent_path(), averages)->net),
            weights_digest(resumed(run.folder.path(), averages)->net));
}

TEST(ValidatedWeights, BesideOthersThatDoNotFitAreRefused) {
  const auto message = [](const std::function<void(NamedTensors&)>& change) {
    const Averaged run;
    forge(run.checkpoint, kSharedFile, change);
    return error_text<UserError>([&] {
      Stretch{run.folder.path(), [&](Options& o) {
                o.resume = run.checkpoint;
                averages(o);
              }}(4, true, {});
    });
  };
  const auto named = [](NamedTensors& tensors, const std::string& name) {
    return std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  };
  EXPECT_THAT(message([&](NamedTensors& t) { t.erase(named(t, "cohort.trained/fc1.bias")); }),
              HasSubstr("cohort.trained/fc1.bias: [4] in the model, not in the checkpoint"));
  EXPECT_THAT(message([&](NamedTensors& t) { named(t, "cohort.trained/fc1.bias")->second = torch::zeros({5}); }),
              HasSubstr("cohort.trained/fc1.bias: [4] in the model, [5] in the checkpoint"));
  EXPECT_THAT(message([&](NamedTensors& t) { named(t, "cohort.trained/fc1.bias")->first = "cohort.trained/fc9"; }),
              HasSubstr("fc9"));
  EXPECT_THAT(message([&](NamedTensors& t) { t.erase(named(t, "fc1.bias")); }), HasSubstr("fc1.bias"));
}

}  // namespace
}  // namespace cohort::testing
