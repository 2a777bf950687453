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

TEST_F(StrategiesTest, WhatIsNotInstalledIsNotShownAsUsable) {
  const auto all = entries();
  int missing = 0;
  for (const auto& [name, entry] : all) {
    if (entry["state"] == "installed") continue;
    ++missing;
    for (const auto& [use, cell] : entry["uses"].items()) EXPECT_TRUE(cell.is_null()) << name << ", " << use;
  }
  EXPECT_EQ(all.at("ddp")["state"], "installed");
  EXPECT_GT(all.size(), 6u);
  EXPECT_LT(missing, 6);
}

TEST_F(StrategiesTest, TheTableAgreesWithWhatTheInstalledPluginsPlan) {
  for (const auto& [name, entry] : entries()) {
    if (!entry.contains("planned")) continue;
    EXPECT_EQ(entry["planned"]["spread"], entry["spread"]) << name;
    for (const auto& [use, answer] : entry["planned"]["uses"].items()) {
      const bool is_shown_as_usable = entry["uses"][use] == true;
      EXPECT_TRUE(!is_shown_as_usable || answer == true) << name << ", " << use << ": " << answer;
    }
  }
}

TEST_F(StrategiesTest, AStrategyOfSomebodyElseShowsWhatItPlans) {
  const auto all = entries({folder_with("good")});
  const json& good = all.at("good");
  EXPECT_EQ(good["spread"], "k x 1");
  EXPECT_EQ(good["uses"]["alone"], true);
  EXPECT_EQ(good["uses"]["nodes"], true);
  EXPECT_TRUE(good["uses"]["own-loop"].is_null());
  EXPECT_THAT(cohort({"strategies", "--plugin-dir=" + (folder_ / "plugins").string()}).out,
              ContainsRegex("\ngood +installed +k x 1 +yes +yes +yes +- +- "));
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
  EXPECT_TRUE(broken["uses"]["alone"].is_null());
  EXPECT_FALSE(entries({folder_with("crashes_in_init")}).contains("crashes_in_init"));
}

TEST_F(StrategiesTest, AnAcceleratorForGpusMakesTheirColumnMeanSomething) {
  EXPECT_TRUE(entries().at("ddp")["uses"]["gpu"].is_null());
  EXPECT_EQ(entries({folder_with("device")}).at("ddp")["uses"]["gpu"], true);
}

TEST_F(StrategiesTest, MistakesGiveExitCodeTwo) {
  EXPECT_EQ(cohort({"strategies", "ddp"}).code, 2);
  EXPECT_EQ(cohort({"strategies", "--plugin-dir"}).code, 2);
}

}  // namespace
}  // namespace cohort::cli
