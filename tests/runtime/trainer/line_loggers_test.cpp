// Loggers that write lines of text: CSV and JSON.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <memory>

#include <cohort/host/error.hpp>
#include <cohort/logger.hpp>

#include "error_text.hpp"
#include "loggers/line_loggers.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using testing::TemporaryFolder;
using Cells = std::vector<std::pair<std::string, double>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kLastStep = 11;

struct Row {
  uint64_t step = 0;
  int64_t epoch = 0;
  Cells values;
};

void log(Logger& logger, const Row& row) {
  logger.log_metrics({row.step, row.epoch, row.values});
}

/// Logs steps from..to of a run that validates every fifth step.
void train(Logger& logger, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step <= to; ++step) {
    const auto epoch = static_cast<int64_t>(step / 4);
    log(logger, {step, epoch, {{"loss_step", 1.0 / static_cast<double>(step)}}});
    if (step % 5 == 0) log(logger, {step, epoch, {{"val_loss", step == 5 ? std::nan("") : kInfinity}}});
  }
}

template <class Tested>
struct FileOf;
template <>
struct FileOf<CsvLogger> {
  static constexpr const char* kName = "metrics.csv";
};
template <>
struct FileOf<JsonLogger> {
  static constexpr const char* kName = "metrics.jsonl";
};

template <class Tested>
class LineLogger : public ::testing::Test {
 protected:
  std::string text() const { return folder_.read(FileOf<Tested>::kName); }
  Tested logger() const { return Tested(folder_.path()); }

  static std::string text_of_whole_run() {
    const TemporaryFolder folder;
    Tested logger(folder.path());
    train(logger, 1, kLastStep);
    return folder.read(FileOf<Tested>::kName);
  }

  TemporaryFolder folder_;
};
using Tested = ::testing::Types<CsvLogger, JsonLogger>;
TYPED_TEST_SUITE(LineLogger, Tested);

TYPED_TEST(LineLogger, ResumedRunEndsWithTheFileOfAnUninterruptedOne) {
  const std::string whole = this->text_of_whole_run();
  for (uint64_t killed_after = 0; killed_after <= kLastStep; ++killed_after) {
    for (uint64_t kept = 0; kept <= killed_after; ++kept) {
      const TemporaryFolder folder;
      {
        TypeParam logger(folder.path());
        train(logger, 1, killed_after);
      }
      TypeParam logger(folder.path());
      logger.resume_after(kept);
      train(logger, kept + 1, kLastStep);
      EXPECT_EQ(folder.read(FileOf<TypeParam>::kName), whole) << killed_after << ", " << kept;
    }
  }
}

TYPED_TEST(LineLogger, AFileThatIsTornAnywhereLosesTheTornLineAlone) {
  const std::string whole = this->text_of_whole_run();
  for (size_t length = 0; length <= whole.size(); ++length) {
    const std::string torn = whole.substr(0, length);
    this->folder_.write(FileOf<TypeParam>::kName, torn);
    { auto logger = this->logger(); }
    EXPECT_EQ(this->text(), torn.substr(0, torn.rfind('\n') + 1)) << length;
  }
}

TYPED_TEST(LineLogger, AResumeAfterTheLastStepLeavesEveryByte) {
  const std::string whole = this->text_of_whole_run();
  this->folder_.write(FileOf<TypeParam>::kName, whole);
  this->logger().resume_after(kLastStep);
  EXPECT_EQ(this->text(), whole);
}

TYPED_TEST(LineLogger, EveryRowIsInTheFileAtOnce) {
  auto logger = this->logger();
  log(logger, {1, 0, {{"loss", 0.5}}});
  const std::string first = this->text();
  log(logger, {2, 0, {{"loss", 0.25}}});
  EXPECT_NE(first.find("0.5"), std::string::npos);
  EXPECT_EQ(this->text().substr(0, first.size()), first);
  EXPECT_NE(this->text().find("0.25"), std::string::npos);
  logger.flush();
}

TYPED_TEST(LineLogger, ARowWithoutValuesWritesNothing) {
  auto logger = this->logger();
  log(logger, {1, 0, {}});
  EXPECT_EQ(this->text(), "");
}

TYPED_TEST(LineLogger, AFullDiskKeepsEarlierRowsAndLaterOnesFollow) {
  auto logger = this->logger();
  log(logger, {1, 0, {{"loss", 0.5}}});
  const std::string before = this->text();
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit full { before.size() + 2, limit.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const std::string error = error_text<UserError>([&] { log(logger, {2, 0, {{"loss", 0.25}}}); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_NE(error.find(FileOf<TypeParam>::kName), std::string::npos) << error;
  EXPECT_EQ(this->text(), before);
  log(logger, {3, 0, {{"loss", 0.125}}});
  EXPECT_EQ(this->text().substr(0, before.size()), before);
  EXPECT_EQ(this->text().find("0.25"), std::string::npos);
  EXPECT_NE(this->text().find("0.125"), std::string::npos);
}

TYPED_TEST(LineLogger, APipeOrAFolderInItsPlaceIsRefused) {
  const auto file = this->folder_.path() / FileOf<TypeParam>::kName;
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(error_text<UserError>([&] { this->logger(); }).find("not a regular file"), std::string::npos);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_THROW(this->logger(), UserError);
}

TEST(CsvLogger, ANameThatWasNotLoggedInARowIsAnEmptyCell) {
  const TemporaryFolder folder;
  CsvLogger logger(folder.path());
  log(logger, {1, 0, {{"loss", 0.5}}});
  log(logger, {2, 0, {{"val_acc", 1}, {"val_loss", -std::nan("")}}});
  log(logger, {3, 1, {{"loss", -kInfinity}}});
  EXPECT_EQ(folder.read("metrics.csv"), "epoch,step,loss,val_acc,val_loss\n0,1,0.5,,\n0,2,,1,nan\n1,3,-inf,,\n");
}

TEST(CsvLogger, OnlyANewNameMakesTheFileAnew) {
  const TemporaryFolder folder;
  CsvLogger logger(folder.path());
  const auto inode = [&] {
    struct stat status {};
    EXPECT_EQ(::stat((folder.path() / "metrics.csv").c_str(), &status), 0);
    return status.st_ino;
  };
  log(logger, {1, 0, {{"a", 1}, {"b", 1}}});
  const auto first = inode();
  log(logger, {2, 0, {{"b", 1}}});
  EXPECT_EQ(inode(), first);
  log(logger, {3, 0, {{"c", 1}}});
  EXPECT_NE(inode(), first);
}

TEST(CsvLogger, AnotherTextInItsFileIsRefusedAndKept) {
  const TemporaryFolder folder;
  folder.write("metrics.csv", "epoch,step\none,two\n");
  EXPECT_NE(error_text<UserError>([&] { CsvLogger logger(folder.path()); }).find("move it away"), std::string::npos);
  EXPECT_EQ(folder.read("metrics.csv"), "epoch,step\none,two\n");
}

TEST(JsonLogger, WritesARowAsAnObjectWithTextsForNan) {
  const TemporaryFolder folder;
  JsonLogger logger(folder.path());
  log(logger, {7, 1, {{"loss", 0.1}, {"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}}});
  EXPECT_EQ(folder.read("metrics.jsonl"),
            "{\"step\":7,\"epoch\":1,\"loss\":0.1,\"a\":\"nan\",\"b\":\"inf\",\"c\":\"-inf\"}\n");
}

TEST(JsonLogger, ANameThatIsNoUtf8IsWrittenAllTheSame) {
  const TemporaryFolder folder;
  JsonLogger logger(folder.path());
  log(logger, {1, 0, {{"a\xff\"", 2}}});
  EXPECT_EQ(folder.read("metrics.jsonl"), "{\"step\":1,\"epoch\":0,\"a\xEF\xBF\xBD\\\"\":2.0}\n");
}

TEST(JsonLogger, AnotherTextInItsFileIsRefusedAndKept) {
  const TemporaryFolder folder;
  for (const std::string text : {"{\"step\":1}\n[3]\n", "{\"step\":-1}\n", "{}\n", "nothing\n", "\n"}) {
    folder.write("metrics.jsonl", text);
    JsonLogger logger(folder.path());
    EXPECT_NE(error_text<UserError>([&] { logger.resume_after(0); }).find("move the file away"), std::string::npos)
        << text;
    EXPECT_EQ(folder.read("metrics.jsonl"), text);
  }
}

TEST(Logger, ALoggerOfAUsersOwnNeedsMetricsAlone) {
  struct Own final : Logger {
    void log_metrics(const MetricsRow& row) override { steps.push_back(row.step); }
    std::vector<uint64_t> steps;
  };
  const auto own = std::make_unique<Own>();
  Logger& logger = *own;
  logger.resume_after(1);
  logger.log_hyper_parameters({{"lr", 0.1}, {"model", "mlp"}});
  logger.log_text("note", "text", 1);
  logger.log_histogram("weight", {}, 1);
  log(logger, {2, 0, {{"loss", 1}}});
  logger.flush();
  logger.completed();
  EXPECT_EQ(own->steps, std::vector<uint64_t>{2});
}

}  // namespace
}  // namespace cohort
