// Tables of loggers: every validation has a row, and a resumed run ends with the bytes of an uninterrupted one.
#include <gmock/gmock.h>

#include <sstream>

#include <cohort/host/files.hpp>
#include <cohort/monitors.hpp>

#include "loggers/run_loggers.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kAll = fs::copy_options::recursive;

BatchLimit batches(int64_t count) {
  return {.count = count, .fraction = {}};
}

struct Case {
  int64_t log_every;
  std::optional<BatchLimit> validate_every;
};

/// Four steps in each of two epochs, logged as a table and as lines below DIR/logs, with checkpoints in DIR/ckpt.
struct LoggedRun : Training {
  LoggedRun(const fs::path& dir, const Case& given, bool resumes = false)
      : Training([&](Options& o) {
          o.max_epochs = 2;
          o.log_every_n_steps = given.log_every;
          o.val_check_interval = given.validate_every;
          o.log_dir = dir / "logs";
          o.loggers = {Spec("csv"), Spec("json")};
          o.checkpoint_dir = dir / "ckpt";
          if (resumes) o.resume = "auto";
        }) {
    data = Numbers(11);
  }
  void train(std::vector<std::shared_ptr<Callback>> more = {}) {
    more.push_back(std::make_shared<LearningRateMonitor>());
    fit(std::move(more));
  }
};

std::string tables(const fs::path& dir) {
  const fs::path folder = dir / "logs/version_0";
  return host::read_text_file(folder / "metrics.csv", 100'000) +
         host::read_text_file(folder / "metrics.jsonl", 100'000);
}

/// Saves at every save point, and copies the logs as a kill at that moment would leave them.
struct Saver final : Callback {
  explicit Saver(fs::path dir) : dir_(std::move(dir)) {}
  std::string name() const override { return "saver"; }
  void on_save_point(Fit& fit, SavePoint /*point*/) override {
    const auto checkpoint = fit.save(dir_ / "all");
    if (!checkpoint) return;
    const fs::path killed = dir_ / checkpoint->filename();
    fs::create_directories(killed / "ckpt");
    fs::copy(dir_ / "logs", killed / "logs", kAll);
  }
  fs::path dir_;
};

TEST(ResumedLogs, AreThoseOfTheWholeRunAfterAKill) {
  for (const Case& given : {Case{3, batches(2)}, Case{50, batches(3)}}) {
    const TemporaryFolder folder;
    const fs::path& dir = folder.path();
    LoggedRun(dir, given).train({std::make_shared<Saver>(dir)});
    const std::string whole = tables(dir);
    const auto steps = names_in(dir / "all");
    ASSERT_EQ(steps.size(), 8U);
    for (const std::string& step : steps) {
      SCOPED_TRACE(step + ", logged every " + std::to_string(given.log_every));
      fs::rename(dir / "all" / step, dir / step / "ckpt" / step);
      LoggedRun(dir / step, given, true).train();
      EXPECT_EQ(tables(dir / step), whole);
    }
  }
}

TEST(ResumedLogs, AreThoseOfTheWholeRunAfterASignal) {
  for (const Case& given : {Case{1, batches(2)}, Case{3, batches(2)}, Case{4, {}}}) {
    const TemporaryFolder whole;
    LoggedRun(whole.path(), given).train();
    for (int stop = 1; stop <= 5; ++stop) {
      for (const bool in_validation : {false, true}) {
        const TemporaryFolder folder;
        LoggedRun first(folder.path(), given);
        (in_validation ? first.net.in_validation : first.net.during) = signal_at_call(stop);
        try {
          first.train();
          continue;  // there are not so many batches
        } catch (const Interrupted&) {
        }
        SCOPED_TRACE("stopped in batch " + std::to_string(stop) + " of " + (in_validation ? "validation" : "training") +
                     ", logged every " + std::to_string(given.log_every));
        LoggedRun(folder.path(), given, true).train();
        EXPECT_EQ(tables(folder.path()), tables(whole.path()));
      }
    }
  }
}

TEST(ResumedLogs, OfAnotherCheckpointFolderAreOfTheirOwn) {
  const TemporaryFolder folder;
  LoggedRun(folder.path(), {1, {}}).train();
  const std::string whole = tables(folder.path());
  for (const bool writes : {false, true}) {
    Training other([&](Options& o) {
      o.max_epochs = 2;
      o.log_dir = folder.path() / "logs";
      o.resume = folder.path() / "ckpt/step-00000004";
      if (writes) o.checkpoint_dir = folder.path() / "other";
    });
    other.data = Numbers(11);
    other.fit({});
    EXPECT_EQ(tables(folder.path()), whole);
  }
  EXPECT_THAT(names_in(folder.path() / "logs"), ElementsAre("version_0", "version_1", "version_2"));
}

TEST(ResumedLogs, OfASecondFitThatBeginsAnewHaveEachRowOnce) {
  const TemporaryFolder folder;
  const auto program = [&](const fs::path& dir, bool ends_early) {
    LoggedRun run(dir, {1, {}}, /*resumes=*/true);
    run.train();
    run.net.during = [&] {
      if (ends_early && run.net.global_step() == 3) throw UserError("ends early");
    };
    run.train();
  };
  EXPECT_THROW(program(folder.path(), true), UserError);
  program(folder.path(), false);
  const TemporaryFolder whole;
  program(whole.path(), false);
  const char* const table = "logs/version_0/fit-2/metrics.csv";
  EXPECT_EQ(folder.read(table), whole.read(table));
}

TEST(Loggers, TakeNoFolderFromAFileThatNoRunHasMade) {
  RunRecord record;
  const auto loggers = log_to({.dir = "logs"}, record);
  for (const char* name :
       {"../../outside", "/an/absolute/folder", "..", ".", "version_0/..", "version_01", "version_"}) {
    CallbackState state;
    state.set("folder", name);
    EXPECT_THAT(error_text<UserError>([&] { loggers->load_state(state); }), HasSubstr("none that a run has made"))
        << name;
  }
}

TEST(Loggers, RefuseMetricsNamedLikeStepOrEpoch) {
  for (const char* name : {"step", "epoch"}) {
    const TemporaryFolder folder;
    LoggedRun run(folder.path(), {50, batches(2)});
    run.net.in_validation = [&] { run.net.log(name, 1.0); };
    EXPECT_THAT(error_text<UserError>([&] { run.train(); }), HasSubstr(std::string("a metric is named '") + name));
    EXPECT_EQ(tables(folder.path()), "");
  }
}

/// Returns the beginning of each row that has a validation, in a run that validates after so many batches.
std::vector<std::string> validated_every(int64_t interval) {
  const TemporaryFolder folder;
  LoggedRun(folder.path(), {50, batches(interval)}).train();
  std::istringstream lines(host::read_text_file(folder.path() / "logs/version_0/metrics.jsonl", 100'000));
  std::vector<std::string> validated;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"val\"") != std::string::npos) validated.push_back(line.substr(0, line.find(',')));
  }
  return validated;
}

TEST(Loggers, HaveARowOfEveryValidation) {
  EXPECT_THAT(validated_every(2), ElementsAre("{\"step\":2", "{\"step\":4", "{\"step\":6", "{\"step\":8"));
}

TEST(Loggers, RepeatNoValidationInTheRowOfTheEpoch) {
  EXPECT_THAT(validated_every(3), ElementsAre("{\"step\":3", "{\"step\":7"));
}

}  // namespace
}  // namespace cohort::testing
