// What plugins answer, and how the answers of several are put together.
#include <cohort/host/uses.hpp>

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

using ::testing::HasSubstr;

constexpr UseQuery kClipping{.use = COHORT_USE_CLIPPING};

/// An option value that makes the test plugin answer about clipping.
Spec about_clipping(const std::string& name, int answer = COHORT_ANSWER_NO) {
  return Spec(name).set("use", COHORT_USE_CLIPPING).set("answer", answer);
}

class Uses : public ::testing::Test {
 protected:
  Answer ask(const Spec& strategy, const std::vector<Spec>& layers = {}, const UseQuery& query = kClipping) {
    return ask_strategy(plugins_, strategy, layers, query);
  }
  std::string refusal(const Spec& strategy, const std::vector<Spec>& layers, const UseQuery& query) {
    try {
      require_use(plugins_, strategy, layers, query);
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }
  /// Expects that the use is refused unless every layer says yes. `words` follow "cannot".
  void expect_silence_is_no(int32_t use, const std::string& words, const std::string& fix_of_layer) {
    const UseQuery query{.use = use};
    const Spec willing = Spec("refusing").set("use", use).set("answer", COHORT_ANSWER_YES);
    EXPECT_EQ(refusal(willing, {}, query), "");
    EXPECT_EQ(refusal(willing, {Spec("refusing_layer")}, query),
              "layer 'refusing_layer' cannot " + words + "; " + fix_of_layer);
    EXPECT_THAT(refusal(about_clipping("refusing", COHORT_ANSWER_YES), {}, query),
                HasSubstr("strategy 'refusing:plain' cannot " + words));
    EXPECT_THAT(refusal(Spec("good"), {}, query), HasSubstr("cannot " + words)) << "it answers nothing";
  }

  Log log_{{}};
  PluginHost plugins_{{{}, {TEST_PLUGIN_FOLDER}}, log_};
};

TEST_F(Uses, RefusesInOneSentence) {
  EXPECT_EQ(refusal(about_clipping("refusing"), {}, kClipping),
            "strategy 'refusing:plain' cannot clip gradients: refusing keeps no state for it; choose --strategy=ddp");
  EXPECT_EQ(refusal(about_clipping("refusing"), {}, {.use = COHORT_USE_PHASES}), "");
}

TEST_F(Uses, KnowNothingOfAStrategyThatDoesNotAnswer) {
  EXPECT_EQ(ask(Spec("good")).answer, COHORT_ANSWER_UNKNOWN);
  EXPECT_EQ(ask(Spec("nowhere")).answer, COHORT_ANSWER_UNKNOWN);
  EXPECT_EQ(ask(Spec("refusing")).answer, COHORT_ANSWER_UNKNOWN);
}

TEST_F(Uses, TakeTheTopmostNo) {
  const Spec both = about_clipping("refusing");
  EXPECT_EQ(ask(both, {about_clipping("refusing_layer")}).who, "layer 'refusing_layer'");
  EXPECT_EQ(ask(both, {about_clipping("refusing_layer", COHORT_ANSWER_YES)}).who, "strategy 'refusing:plain'");
  EXPECT_EQ(ask(both, {about_clipping("refusing_layer")}).flag, "layer");
}

TEST_F(Uses, TakeAYesOfAnyLayerOverSilence) {
  EXPECT_EQ(ask(Spec("refusing"), {about_clipping("refusing_layer", COHORT_ANSWER_YES)}).answer, COHORT_ANSWER_YES);
  EXPECT_EQ(ask(about_clipping("refusing", COHORT_ANSWER_YES), {Spec("refusing_layer")}).answer, COHORT_ANSWER_YES);
}

TEST_F(Uses, AskAncestorsToo) {
  EXPECT_EQ(ask(about_clipping("refusing_child")).who, "strategy 'refusing_child' (by 'refusing', which it inherits)");
}

TEST_F(Uses, TellValueVariantAndWhatIsBelow) {
  const Spec layer = about_clipping("refusing_layer").set("if_below", "good:fancy,bits=3");
  EXPECT_TRUE(ask(Spec("good", "fancy").set("bits", 3), {layer}).is_no());
  EXPECT_FALSE(ask(Spec("good").set("bits", 3), {layer}).is_no()) << "below is good:plain";
  EXPECT_TRUE(ask(about_clipping("refusing").set("if_variant", "plain")).is_no());
  EXPECT_FALSE(ask(about_clipping("refusing").set("if_variant", "fancy")).is_no());
  const Spec from = about_clipping("refusing").set("from", 3);
  EXPECT_FALSE(ask(from, {}, {.use = COHORT_USE_CLIPPING, .value = 2}).is_no());
  EXPECT_TRUE(ask(from, {}, {.use = COHORT_USE_CLIPPING, .value = 3}).is_no());
}

TEST_F(Uses, CompleteARefusalWithoutWords) {
  EXPECT_EQ(ask(about_clipping("refusing").set("reason", false)).text("clip gradients"),
            "strategy 'refusing:plain' cannot clip gradients: it gives no reason; leave --strategy out, or choose "
            "another one");
}

TEST_F(Uses, RefuseAnAnswerThatIsNone) {
  try {
    ask(about_clipping("refusing", 7));
    FAIL() << "nothing was thrown";
  } catch (const PluginRefused& error) {
    EXPECT_STREQ(error.what(),
                 "strategy 'refusing:plain', supports: the answer 7 is none; set answer to a COHORT_ANSWER_ constant");
  }
}

TEST_F(Uses, CheckOptionsBeforeTheyAsk) {
  EXPECT_THROW(ask(Spec("refusing").set("us", 1)), UserError);
}

TEST_F(Uses, TakeSilenceForNoWhereABackwardIsRepeated) {
  expect_silence_is_no(COHORT_USE_CLOSURES,
                       "train with LBFGS: it does not say that its steps can repeat their backward",
                       "choose another optimizer, or another --layer");
}

TEST_F(Uses, TakeSilenceForNoWhereStepsAreReplayed) {
  expect_silence_is_no(COHORT_USE_GRAPH, "replay captured steps: it does not say that its steps can be captured",
                       "choose another --layer, or leave --graph out");
}

TEST_F(Uses, TakeSilenceForNoWhereARankMayHaveNoData) {
  expect_silence_is_no(COHORT_USE_JOIN,
                       "go on with ranks that have no batch left: it does not say that zeros may stand for a rank's "
                       "gradients",
                       "choose another --layer, or leave --uneven=join out");
}

TEST_F(Uses, TakeSilenceForNoWhereStepsMayBeSkipped) {
  expect_silence_is_no(COHORT_USE_LOSS_SCALER,
                       "train in float16, whose losses are scaled: it does not say that it takes skipped steps",
                       "choose --precision=bf16-mixed, or another --layer");
}

TEST_F(Uses, LetDevicesThatAreNoCpuNotBeForked) {
  const Answer fork = ask_accelerator(plugins_, "device", {.use = COHORT_USE_FORK});
  EXPECT_EQ(fork.text("fork"),
            "accelerator 'device' cannot fork: a process that uses its devices cannot be forked; "
            "choose --strategy=ddp");
  EXPECT_FALSE(ask_accelerator(plugins_, "device", {.use = COHORT_USE_REPLICAS, .value = 2}).is_no());
}

TEST(UseTexts, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const UseText& use : uses()) names.insert(use.name);
  EXPECT_EQ(names.size(), uses().size());
}

}  // namespace
}  // namespace cohort::host
