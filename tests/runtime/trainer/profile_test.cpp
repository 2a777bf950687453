// The profile of a training: how time is divided, the table, the trace, and the clocks of ranks.
#include "profile/profile.hpp"

#include <gmock/gmock.h>
#include <pthread.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include <cohort/host/spec.hpp>

#include "small_training.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;
using testing::Training;

TEST(PhaseClock, GivesEachMomentToThePhaseEnteredLast) {
  PhaseClock clock(3);
  clock.enter(0, 100);
  clock.enter(1, 110);
  clock.enter(2, 115);
  clock.leave(118);
  clock.leave(125);
  clock.enter(1, 140);
  clock.leave(145);
  clock.leave(200);
  EXPECT_EQ(clock.rows()[2].ns, 3);
  EXPECT_EQ(clock.rows()[1].ns, 5 + 7 + 5);
  EXPECT_EQ(clock.rows()[0].ns, 10 + 15 + 55);
  EXPECT_EQ(clock.rows()[1].count, 2u);
}

TEST(PhaseClock, CountsNothingOutsideOfThePhases) {
  PhaseClock clock(1);
  clock.enter(clock.add_row(), 5);
  clock.leave(6);
  clock.enter(0, 50);
  clock.leave(51);
  EXPECT_EQ(clock.rows()[1].ns, 1);
  EXPECT_EQ(clock.rows()[0].ns, 1);
}

TEST(PhaseTable, ShowsRankZeroAndTheRangeOfAll) {
  const PhaseTimes first{4, {{"data", 5, 0.5}, {"validation", 0, 0}, {"rest", 1, 1.5}}};
  const PhaseTimes second{4, {{"data", 5, 0.25}, {"validation", 0, 0}, {"rest", 1, 2.25}}};
  EXPECT_EQ(phase_table({first, second}),
            "Profile of 4 steps: rank 0, and the least and most of 2 ranks\n"
            "phase                            count    seconds     ms/step       %         seconds of ranks\n"
            "data                                 5      0.500    125.0000    25.0       0.250 .. 0.500\n"
            "rest                                 1      1.500    375.0000    75.0       1.500 .. 2.250\n"
            "loop                                        2.000    500.0000   100.0       2.000 .. 2.500\n");
  EXPECT_THAT(phase_table({first}),
              HasSubstr("data                                 5      0.500    125.0000    25.0\n"));
}

TEST(PhaseTable, JoinsCallbacksThatTakeLittle) {
  const auto times = [](double screen) {
    return PhaseTimes{1,
                      {{"callback ema", 2, 0.1, true},
                       {"callback screen", 3, screen, true},
                       {"callback votes", 4, 0.0001, true},
                       {"rest", 1, 0.8}}};
  };
  const std::string alone = phase_table({times(0.0002)});
  EXPECT_THAT(alone, HasSubstr("callback ema "));
  EXPECT_THAT(alone, HasSubstr("callbacks that take little           7      0.000      0.3000"));
  EXPECT_THAT(alone, Not(HasSubstr("callback screen")));
  EXPECT_THAT(phase_table({times(0.0002), times(0.5)}), HasSubstr("callback screen")) << "it takes time on a rank";
}

TEST(PhaseTable, NoStepsAndNoTimeAreNoDivisionByZero) {
  const std::string table = phase_table({PhaseTimes{0, {{"rest", 1, 0}}}});
  EXPECT_THAT(table, HasSubstr("loop"));
  EXPECT_THAT(table, Not(HasSubstr("nan")));
}

TEST(PhaseTimes, AreReadBackFromTheirText) {
  const PhaseTimes times{7, {{"data", 5, 0.1234567891234}, {"callback x", 1, 3, true}}};
  EXPECT_EQ(parse_phase_times(to_text(times)), times);
}

// Barriers of two ranks whose clocks differ by `offset`; each leaves some time after the later one has come.
std::pair<BarrierTimes, BarrierTimes> barriers(int64_t offset) {
  BarrierTimes first, own;
  int64_t now = 1'000'000;
  for (size_t i = 0; i < first.size(); ++i) {
    const auto wait = static_cast<int64_t>(i);
    const int64_t come = now + (i % 2 == 0 ? 0 : 700), own_come = now + (i % 2 == 0 ? 900 : 0);
    const int64_t complete = std::max(come, own_come);
    first[i] = {come, complete + 40 + 13 * wait};
    own[i] = {own_come + offset, complete + 60 + 17 * wait + offset};
    now = complete + 10'000;
  }
  return {first, own};
}

TEST(ClockOffset, IsBoundedByBarriersFromBothSides) {
  for (const int64_t offset : {int64_t{5'000}, int64_t{-3'000'000'000}, int64_t{987'654'321'000}}) {
    const auto [first, own] = barriers(offset);
    const ClockOffset found = clock_offset(first, own);
    EXPECT_LE(std::abs(found.ns - offset), found.error_ns) << offset;
    EXPECT_LE(found.error_ns, 60) << "the two quickest barriers bound it";
  }
}

TEST(ClockOffset, IsNothingWhereThatIsPossible) {
  const auto [first, own] = barriers(0);
  EXPECT_EQ(clock_offset(first, own).ns, 0);
}

json trace_of(const EventLog& log, const TracePlace& place, size_t bytes = 1'000'000) {
  TraceText text(log, place);
  std::string whole = kTraceBegin;
  std::string separator;
  for (std::string piece = text.next(bytes); !piece.empty(); piece = text.next(bytes)) {
    whole += std::exchange(separator, ",\n") + piece;
  }
  return json::parse(whole + kTraceEnd)["traceEvents"];
}

TEST(TraceText, WritesEachEventWithRankThreadAndTime) {
  EventLog log;
  log.name_thread("loop");
  log.add(EventLog::Kind::kOperator, "a \"name\"\xff", {5'001'234, 5'003'000});
  std::jthread([&] {
    ::pthread_setname_np(::pthread_self(), "lane default");
    log.add(EventLog::Kind::kBucket, "bucket 3", {4'999'999, 5'000'001}, R"({"bucket":3,"bytes":12})");
  }).join();
  const json events = trace_of(log, {.rank = 2, .label = "", .zero_ns = 5'000'000});
  const json& first = events[events.size() - 2];
  EXPECT_THAT(first["name"].get<std::string>(), HasSubstr("a \"name\""));
  EXPECT_EQ(first["ph"], "X");
  EXPECT_EQ(first["cat"], "operator");
  EXPECT_EQ(first["pid"], 2);
  EXPECT_EQ(first["tid"], 0);
  EXPECT_DOUBLE_EQ(first["ts"].get<double>(), 1.234);
  EXPECT_DOUBLE_EQ(first["dur"].get<double>(), 1.766);
  const json& second = events.back();
  EXPECT_EQ(second["args"]["bytes"], 12);
  EXPECT_EQ(second["tid"], 1);
  EXPECT_DOUBLE_EQ(second["ts"].get<double>(), -0.001);
  std::map<int, std::string> threads;
  for (const json& event : events) {
    if (event["name"] == "thread_name") threads[event["tid"].get<int>()] = event["args"]["name"].get<std::string>();
  }
  EXPECT_EQ(threads, (std::map<int, std::string>{{0, "loop"}, {1, "lane default"}}));
}

TEST(TraceText, GivesTheSameEntriesInPiecesOfAnySize) {
  EventLog log;
  for (int i = 0; i < 50; ++i) log.add(EventLog::Kind::kPhase, "phase " + std::to_string(i), {i, i + 1});
  const json whole = trace_of(log, {});
  EXPECT_EQ(std::ranges::count_if(whole, [](const json& event) { return event["ph"] == "X"; }), 50);
  for (const size_t bytes : {1u, 300u, 4096u}) EXPECT_EQ(trace_of(log, {}, bytes), whole) << bytes;
}

TEST(EventLog, IsWrittenByManyThreads) {
  EventLog log;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) log.add(EventLog::Kind::kOperator, std::to_string(t), {i, i});
      });
    }
  }
  std::map<std::string, std::set<int>> threads_of_name;
  for (const auto& event : log.events()) threads_of_name[log.text(event.name)].insert(event.thread);
  EXPECT_EQ(log.events().size(), 2000u);
  for (const auto& [name, threads] : threads_of_name) EXPECT_EQ(threads.size(), 1u) << name;
}

TEST(EventLog, LeavesEventsOutWhenItIsFull) {
  EventLog log;
  for (size_t i = 0; i < EventLog::kMost + 3; ++i) log.add(EventLog::Kind::kOperator, "x", {});
  EXPECT_EQ(log.events().size(), EventLog::kMost);
  EXPECT_EQ(log.left_out(), 3u);
}

// ---- in a training of two steps in each epoch

struct Profiled {
  TemporaryFolder folder;
  std::filesystem::path file = folder.path() / "trace.json";
  std::string table;

  explicit Profiled(
      const std::string& options, std::vector<std::shared_ptr<Callback>> callbacks = {},
      const std::function<void(Options&)>& more = [](Options&) {}) {
    Training run([&](Options& o) {
      o.max_epochs = 3;
      o.profile = host::parse_file_spec(file.string() + options, "--profile");
      more(o);
    });
    ::testing::internal::CaptureStdout();
    run.fit(std::move(callbacks));
    table = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(run.scripted.script().observer, nullptr) << "nobody observes a training that is over";
  }

  std::vector<json> events(const std::string& category) const {
    const json trace = json::parse(folder.read("trace.json"));
    std::vector<json> found;
    for (const json& event : trace["traceEvents"]) {
      if (event.value("cat", "") == category) found.push_back(event);
    }
    return found;
  }
  std::vector<std::string> names(const std::string& category) const {
    std::vector<std::string> found;
    for (const json& event : events(category)) found.push_back(event["name"].get<std::string>());
    return found;
  }
};

/// Sleeps, so that it costs.
struct Slow final : Callback {
  std::string name() const override { return "slow"; }
  void on_step_end(Fit& /*fit*/) override { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
};

TEST(Profile, PrintsATableOfThePhasesAndOfCallbacksThatCost) {
  const Profiled run("", {std::make_shared<Slow>()});
  EXPECT_THAT(run.table, HasSubstr("Profile of 6 steps\n"));
  for (const char* phase : {"data", "transfer", "forward", "backward", "waiting for gradients", "optimizer",
                            "validation", "callback slow", "callbacks that take little", "rest", "loop"}) {
    EXPECT_THAT(run.table, HasSubstr("\n" + std::string(phase) + " ")) << phase;
  }
  EXPECT_THAT(run.table, ::testing::ContainsRegex("\nforward +6 "));
  EXPECT_THAT(run.table, ::testing::ContainsRegex("\nvalidation +3 "));
  EXPECT_THAT(run.table, ::testing::ContainsRegex("\nrest [^\n]+\nloop "));
  EXPECT_THAT(run.table, Not(HasSubstr("\ncheckpoint ")));
}

TEST(Profile, TracesTheStepsAfterTheFirstOnes) {
  const Profiled run(",steps=2,warmup=3");
  EXPECT_THAT(run.names("step"), ElementsAre("step 4", "step 5"));
  EXPECT_THAT(run.names("operator"), Contains("aten::batch_norm"));
  EXPECT_THAT(run.names("phase"), Contains("forward").Times(2));
}

TEST(Profile, PutsOperatorsIntoTheirPhase) {
  const Profiled run(",steps=1,warmup=2");
  const auto of = [&](const std::string& category, const std::string& name) {
    for (const json& event : run.events(category)) {
      if (event["name"] == name) return event;
    }
    ADD_FAILURE() << name;
    return json();
  };
  const auto end = [](const json& event) { return event["ts"].get<double>() + event["dur"].get<double>(); };
  const json step = of("step", "step 3"), forward = of("phase", "forward"), norm = of("operator", "aten::batch_norm");
  EXPECT_LE(step["ts"], forward["ts"]);
  EXPECT_LE(forward["ts"], norm["ts"]);
  EXPECT_LE(end(norm), end(forward));
  EXPECT_LE(end(forward), end(step));
  EXPECT_LE(end(forward), of("phase", "backward")["ts"].get<double>());
}

TEST(Profile, TimesCheckpoints) {
  TemporaryFolder checkpoints;
  const Profiled run("", {}, [&](Options& o) { o.checkpoint_dir = checkpoints.path() / "kept"; });
  EXPECT_THAT(run.table, ::testing::ContainsRegex("\ncheckpoint +3 "));
}

TEST(Profile, OfAShortTrainingHasNoStepInItsTrace) {
  const Profiled run(",warmup=6");
  EXPECT_THAT(run.names("step"), ::testing::IsEmpty());
  EXPECT_THAT(run.names("operator"), ::testing::IsEmpty());
}

TEST(Profile, OfARunWithoutFilesIsATableAlone) {
  const Profiled run("", {}, [](Options& o) { o.barebones = true; });
  EXPECT_THAT(run.table, HasSubstr("\nforward "));
  EXPECT_FALSE(std::filesystem::exists(run.file));
}

TEST(Profile, ThatCannotBeWrittenEndsNoTraining) {
  TemporaryFolder folder;
  Training run([&](Options& o) { o.profile = Spec((folder.path() / "none/trace.json").string()); });
  ::testing::internal::CaptureStdout();
  run.fit({});
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Profile of 2 steps"));
  EXPECT_EQ(run.record.steps, 2u);
}

TEST(Profile, ObservesWhatIsCommunicatedInTheStepsOfTheTrace) {
  struct Looks final : Callback {
    explicit Looks(testing::Script& given) : script(given) {}
    std::string name() const override { return "looks"; }
    void on_step_end(Fit& fit) override { (script.observer ? observed : other).push_back(fit.step()); }
    testing::Script& script;
    std::vector<uint64_t> observed, other;
  };
  TemporaryFolder folder;
  Training run([&](Options& o) {
    o.max_epochs = 2;
    o.profile = Spec((folder.path() / "trace.json").string()).set("steps", 2).set("warmup", 1);
  });
  const auto looks = std::make_shared<Looks>(run.scripted.script());
  ::testing::internal::CaptureStdout();
  run.fit({looks});
  ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(looks->observed, ElementsAre(2, 3));
  EXPECT_THAT(looks->other, ElementsAre(1, 4));
}

TEST(ProfileSettings, NameAFileForEachTraining) {
  Options options;
  EXPECT_FALSE(profile_settings(options, 1));
  options.profile = Spec("folder/trace.json").set("steps", 7);
  const auto first = profile_settings(options, 1), second = profile_settings(options, 2);
  EXPECT_EQ(first->file, "folder/trace.json");
  EXPECT_EQ(first->steps, 7u);
  EXPECT_EQ(first->warmup, 5u);
  EXPECT_EQ(second->file, "folder/trace-fit-2.json");
  options.profile->set("step", 7);
  EXPECT_THAT(error_text<UserError>([&] { profile_settings(options, 1); }), HasSubstr("steps"));
}

}  // namespace
}  // namespace cohort
