// Hyper-parameters of a module, and modules that are made from those of a checkpoint.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include <cohort/checkpoint.hpp>
#include <cohort/host/files.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

TEST(HyperParameters, AreFoundByNameAndKind) {
  const HyperParameters some{{"hidden", 128}, {"rate", 0.5}, {"activation", "relu"}, {"bias", true}};
  EXPECT_EQ(some.integer("hidden"), 128);
  EXPECT_EQ(some.number("rate"), 0.5);
  EXPECT_EQ(some.text("activation"), "relu");
  EXPECT_EQ(some.number("bias"), 1);
  EXPECT_TRUE(some.has("rate"));
  EXPECT_FALSE(some.has("depth"));
  EXPECT_EQ(error_text<UserError>([&] { some.number("depth"); }),
            "there is no hyper-parameter 'depth'; there is hidden, rate, activation, bias");
  EXPECT_THAT(error_text<UserError>([&] { some.integer("rate"); }), HasSubstr("give a whole number"));
  EXPECT_THAT(error_text<UserError>([&] { some.number("activation"); }), HasSubstr("is the text 'relu'"));
  EXPECT_THAT(error_text<UserError>([&] { some.text("rate"); }), HasSubstr("is a number"));
}

TEST(HyperParameters, AreSetAnewInTheirPlace) {
  HyperParameters some{{"a", 1}, {"b", 2}};
  some.set({"a", "x"});
  some.set({"c", 3});
  EXPECT_EQ(some, (HyperParameters{{"a", "x"}, {"b", 2}, {"c", 3}}));
}

TEST(HyperParameters, AreNotGivenTwice) {
  EXPECT_EQ(error_text<UserError>([] {
              HyperParameters({{"rate", 1}, {"depth", 2}, {"rate", 3}});
            }),
            "the hyper-parameter 'rate' is given twice; keep one of them");
}

TEST(HyperParameters, AreFinite) {
  struct Net final : Module {
    Net() { save_hyperparameters({{"rate", std::nan("")}}); }
  };
  EXPECT_THAT(error_text<UserError>([] { Net net; }), HasSubstr("as 'rate'; give a finite number"));
}

TEST(HyperParameters, HaveNamesThatCanHeadAColumn) {
  struct Net final : Module {
    explicit Net(const char* name) { save_hyperparameters({{name, 1}}); }
  };
  for (const char* name : {"", "a,b", "a\nb", "\"a", "a\xff"}) {
    EXPECT_THAT(error_text<UserError>([&] { Net net(name); }), HasSubstr("cannot head a column")) << name;
  }
}

/// A Learner of any width that says what it was made from.
struct Sized : ModuleFor<Sized> {
  explicit Sized(int64_t width, const std::string& kind = "plain")
      : fc(register_module("fc", torch::nn::Linear(1, width))) {
    save_hyperparameters({{"width", width}, {"kind", kind}, {"rate", 0.1}});
  }
  explicit Sized(const HyperParameters& from) : Sized(from.integer("width"), from.text("kind")) {}
  Output training_step(const Batch& batch, int64_t) override { return fc(batch.tensor().unsqueeze(1)).square().mean(); }
  Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 0.1); }
  void save_state(CallbackState& state) const override { state.set("note", note); }
  void load_state(const CallbackState& state) override { note = state.text("note"); }
  torch::nn::Linear fc;
  std::string note = "nothing";
};

struct SizedByFactory : Sized {
  using Sized::Sized;
  static std::shared_ptr<SizedByFactory> from(const HyperParameters& given) {
    auto made = std::make_shared<SizedByFactory>(given.integer("width"));
    made->is_from_factory = true;
    return made;
  }
  bool is_from_factory = false;
};

/// Trains and leaves checkpoints in the folder.
void train(Sized& net, const fs::path& folder) {
  ScriptedRun run([&](Script& s) {
    s.options.max_epochs = 1;
    s.options.checkpoint_dir = folder;
  });
  Numbers data(6);
  data.evaluation = {};
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
}

TEST(LoadFromCheckpoint, MakesTheModuleThatWasTrained) {
  TemporaryFolder folder;
  Sized trained(5, "fancy");
  trained.note = "kept";
  train(trained, folder.path());
  const auto loaded = load_from_checkpoint<Sized>(folder.path());
  EXPECT_EQ(loaded->fc->options.out_features(), 5);
  EXPECT_TRUE(torch::equal(loaded->fc->weight, trained.fc->weight));
  EXPECT_EQ(loaded->hyperparameters(), trained.hyperparameters());
  EXPECT_EQ(loaded->note, "kept");
  const auto of_one = load_from_checkpoint<SizedByFactory>(folder.path() / "step-00000002");
  EXPECT_TRUE(of_one->is_from_factory);
  EXPECT_TRUE(torch::equal(of_one->fc->weight, trained.fc->weight));
}

TEST(LoadFromCheckpoint, TheManifestHasThemForPeople) {
  TemporaryFolder folder;
  Sized net(5);
  train(net, folder.path());
  const auto manifest =
      nlohmann::json::parse(host::read_text_file(folder.path() / "step-00000002/manifest.json", 100'000));
  EXPECT_EQ(manifest.at("hyperparameters").dump(), R"({"kind":"plain","rate":0.1,"width":5})");
}

TEST(LoadFromCheckpoint, SaysWhatDoesNotFit) {
  TemporaryFolder folder;
  Sized net(5);
  train(net, folder.path());
  Sized wider(6);
  EXPECT_THAT(error_text<UserError>([&] { load_module(wider, folder.path()); }), HasSubstr("the model has [6"));
  EXPECT_THAT(error_text<UserError>([&] { load_module(net, folder.path() / "nowhere"); }),
              HasSubstr("there is no checkpoint in"));
  std::ofstream(folder.path() / "step-00000002/shared.safetensors", std::ios::app) << "x";
  EXPECT_THAT(error_text<UserError>([&] { load_module(net, folder.path()); }), HasSubstr("is not as it was written"));
}

}  // namespace
}  // namespace cohort::testing
