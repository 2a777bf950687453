#include "program/summary.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "failure/failure.hpp"
#include "fake_runtime.hpp"
#include "program/start_time.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(Summary, HasTheFieldsOfTheContractInOrder) {
  const auto json = nlohmann::ordered_json::parse(to_json({}));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("strategy", "variant", "layers", "collective", "accelerator", "world_size",
                                 "num_nodes", "replicas", "threads", "steps", "epochs", "wall_seconds",
                                 "seconds_to_first_step", "step_ms_median", "step_ms_min", "samples_per_second",
                                 "bytes_sent_per_step", "peak_rss_mib", "metrics", "weights_sha256", "exit_reason"));
}

TEST(Summary, GathersTheFiguresOfAllRanks) {
  testing::ScriptedRun run([](testing::Script& s) {
    s.topology.world_size = 2;
    s.selection.strategy = StrategySpec("ddp");
    s.selection.accelerator = "cpu";
    s.all_gather = [](std::string own) { return std::vector{own, to_text({"second", 12.5, 0, 20, 300})}; };
  });
  RunRecord record;
  record.steps = 4;
  record.samples = 10;
  record.bytes_sent = 100;
  record.training_seconds = 2;
  record.weights_sha256 = "first";
  record.step_ms = {4, 1, 3, 2};
  record.metrics = {{"acc", 0.5}, {"odd", std::nan("")}};
  const auto summary = gather_summary(run.runtime(), record);
  EXPECT_THAT(summary.weights_sha256, ElementsAre("first", "second"));
  EXPECT_EQ(summary.peak_rss_mib.size(), 2U);
  EXPECT_GT(summary.peak_rss_mib[0], 1);
  EXPECT_EQ(summary.samples_per_second, 15);
  EXPECT_EQ(summary.bytes_sent_per_step, 50);  // 400 bytes, 2 ranks, 4 steps
  EXPECT_EQ(summary.step_ms_median, 2.5);
  EXPECT_EQ(summary.step_ms_min, 1);
  const auto json = nlohmann::json::parse(to_json(summary));
  EXPECT_EQ(json["strategy"], "ddp");
  EXPECT_EQ(json["layers"], (std::vector<std::string>{"base", "top"}));
  EXPECT_EQ(json["metrics"]["acc"], 0.5);
  EXPECT_TRUE(json["metrics"]["odd"].is_null());
}

TEST(Summary, IsNotMadeOfNonsense) {
  testing::ScriptedRun run([](testing::Script& s) {
    s.topology.world_size = 2;
    s.all_gather = [](std::string own) { return std::vector{own, std::string("\xff")}; };
  });
  EXPECT_THAT(error_text<PeerFailed>([&] { gather_summary(run.runtime(), {}); }),
              HasSubstr("a rank sent figures for the summary that cannot be read"));
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(StepTimes, KeepTheLastOnesInBoundedMemory) {
  RunRecord record;
  for (size_t i = 0; i < RunRecord::kStepTimes + 10; ++i) {
    ++record.steps;
    record.add_step_time(std::chrono::milliseconds(i < 10 ? 1000 : 1));
  }
  EXPECT_EQ(record.step_ms.size(), RunRecord::kStepTimes);
}

TEST(StartTime, IsHandedOnByTheLaunchingProcess) {
  EXPECT_EQ(run_start_time({{kStartTimeVariable, "123456789"}}).count(), 123456789);
}

TEST(StartTime, IsOtherwiseThatOfThisProcess) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const host::Variables& variables : {host::Variables{}, host::Variables{{kStartTimeVariable, "soon"}}}) {
    const auto started = run_start_time(variables);
    EXPECT_LT(started, now + std::chrono::seconds(1));
    EXPECT_GT(started, now - std::chrono::hours(1));
  }
}

Failure failure_of(const std::function<void()>& thrower) {
  try {
    thrower();
  } catch (...) {
    return current_failure();
  }
  return {};
}

TEST(Failure, EveryExceptionLeadsToItsExitCode) {
  EXPECT_EQ(failure_of([] { throw UserError("u"); }).exit_code, 2);
  EXPECT_EQ(failure_of([] { throw PluginRefused("p"); }).exit_code, 3);
  EXPECT_EQ(failure_of([] { throw PeerFailed("r"); }).exit_code, 4);
  EXPECT_EQ(failure_of([] { throw TrainingFailed("t"); }).exit_code, 1);
  EXPECT_EQ(failure_of([] { throw std::runtime_error("s"); }).exit_code, 1);
  EXPECT_EQ(failure_of([] { throw 7; }).exit_code, 1);
}

TEST(Failure, LibTorchsMessageComesWithoutItsBacktrace) {
  const auto failure = failure_of([] { torch::ones({2}) + torch::ones({3}); });
  EXPECT_THAT(failure.message, HasSubstr("must match"));
  EXPECT_THAT(failure.message, Not(HasSubstr("frame #")));
}

TEST(Failure, TorchrunsErrorFileHoldsTheMessage) {
  const TemporaryFolder folder;
  host::Log log(host::LogSettings{host::LogLevel::kOff, host::LogFormat::kText, {}, 0, 1});
  report_failure({2, "no such file", "UserError"}, log, folder.path() / "error.json");
  const auto json = nlohmann::json::parse(folder.read("error.json"));
  EXPECT_EQ(json["message"]["message"], "UserError: no such file");
  EXPECT_TRUE(json["message"]["extraInfo"].contains("timestamp"));
  EXPECT_NO_THROW(report_failure({2, "no such file", "UserError"}, log, "/nowhere/error.json"));
}

}  // namespace
}  // namespace cohort
