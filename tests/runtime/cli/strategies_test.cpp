// `cohort strategies`.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli.hpp"

namespace cohort::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class StrategiesTest : public Cli {
 protected:
  std::map<std::string, json> entries(std::vector<std::string> places = {}) const {
    places.insert(places.begin(), {"strategies", "--json"});
    const Outcome outcome = cohort(places);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::map<std::string, json> entries;
    for (const json& entry : json::parse(outcome.out)) entries[entry["name"]] = entry;
    return entries;
  }

  /// A folder with a copy of a test plugin, under another name where one is given.
  std::string folder_with(const std::string& plugin, std::string name = "") const {
    if (name.empty()) name = plugin;
    const fs::path folder = folder_ / "plugins";
    fs::create_directory(folder);
    fs::copy_file(fs::path(TEST_PLUGIN_FOLDER) / ("cohort_" + plugin + ".so"), folder / ("cohort_" + name + ".so"));
    return "--plugin-dir=" + folder.string();
  }
};

TEST_F(StrategiesTest, ATableShowsWhatCombinesAndWhyTheRestDoesNot) {
  const Outcome outcome = cohort({"strategies"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, ContainsRegex("strategy +state +spread +alone +launched +nodes +gpu +own-loop"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nddp +installed +k x 1 +yes +yes +yes +[-y]"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nsingle +installed +1 x 1 +no +no +no "));
  EXPECT_THAT(outcome.out, ContainsRegex("\nsingle +no nodes +it is one process.*; choose --strategy=ddp"));
}

TEST_F(StrategiesTest, AStrategyOfSomebodyElseShowsWhatItAnswers) {
  const std::string place = folder_with("stranger");
  const auto all = entries({place});
  const json& stranger = all.at("stranger");
  EXPECT_EQ(stranger["spread"], "k x 1");
  EXPECT_EQ(stranger["uses"]["nodes"], true);
  EXPECT_EQ(
      stranger["uses"]["accumulate"],
      (json{{"who", "strategy 'stranger:plain'"}, {"why", "it keeps no sums"}, {"fix", "choose stranger:fancy"}}));
  EXPECT_TRUE(stranger["uses"]["clip"].is_null()) << "it does not say";
  EXPECT_EQ(all.at("stranger:fancy")["uses"]["accumulate"], true);
  EXPECT_FALSE(all.contains("stranger:same")) << "it answers as the default";
  const std::string table = cohort({"strategies", place}).out;
  EXPECT_THAT(table, ContainsRegex("\nstranger +installed +k x 1 +- +- +yes +- +- +no +- +- +- +no +no +- +no\n"));
  EXPECT_THAT(table, ContainsRegex("\nstranger +no accumulate +it keeps no sums; choose stranger:fancy\n"));
}

TEST_F(StrategiesTest, AStrategyThatAnswersNothingIsShownAsSuch) {
  const auto uses = entries({folder_with("good")}).at("good")["uses"];
  for (const auto& [use, cell] : uses.items()) {
    EXPECT_EQ(cell.is_null(), use != "lbfgs" && use != "16-mixed" && use != "join") << use;
  }
}

TEST_F(StrategiesTest, LayersAndWiresAreNoStrategies) {
  const auto all = entries({std::string("--plugin-dir=") + LAYER_FOLDER});
  EXPECT_FALSE(all.contains("overriding"));
  EXPECT_FALSE(all.contains("cpu"));
}

TEST_F(StrategiesTest, ABrokenPluginIsSaidToBeSo) {
  const json broken = entries({folder_with("no_symbol", "dp")}).at("dp");
  EXPECT_EQ(broken["state"], "broken");
  EXPECT_THAT(broken["problem"].get<std::string>(), HasSubstr("cohort_plugin_0"));
  EXPECT_FALSE(broken.contains("uses"));
  EXPECT_EQ(entries({folder_with("crashes_in_init")}).at("crashes_in_init")["state"], "broken");
  EXPECT_THAT(cohort({"strategies", "--plugin-dir=" + (folder_ / "plugins").string()}).out,
              ContainsRegex("\ndp +broken +- +- +- "));
}

TEST_F(StrategiesTest, AnAcceleratorForGpusMakesTheirColumnMeanSomething) {
#ifdef COHORT_HAS_CUDA
  EXPECT_EQ(entries().at("ddp")["uses"]["gpu"], true);
#else
  EXPECT_TRUE(entries().at("ddp")["uses"]["gpu"].is_null());
#endif
  EXPECT_EQ(entries({folder_with("device")}).at("ddp")["uses"]["gpu"], true);
}

TEST_F(StrategiesTest, MistakesGiveExitCodeTwo) {
  EXPECT_EQ(cohort({"strategies", "ddp"}).code, 2);
  EXPECT_EQ(cohort({"strategies", "--plugin-dir"}).code, 2);
}

}  // namespace
}  // namespace cohort::cli
