#include <cohort/host/log.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    std::string name = (fs::temp_directory_path() / "cohort-log-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~LogTest() override { fs::remove_all(folder_); }

  /// What `body` writes to standard error.
  template <class Body>
  std::string standard_error_of(Body body) {
    ::testing::internal::CaptureStderr();
    body();
    return ::testing::internal::GetCapturedStderr();
  }

  fs::path folder_;
};

TEST_F(LogTest, InfoLinesAreWrittenAsTheyAre) {
  EXPECT_EQ(standard_error_of([] { Log({}).info("GPU available: False, used: False"); }),
            "GPU available: False, used: False\n");
}

TEST_F(LogTest, OtherLinesBeginWithTheirLevel) {
  LogSettings settings;
  settings.level = LogLevel::kDebug;
  EXPECT_EQ(standard_error_of([&] {
              Log log(settings);
              log.debug("a");
              log.warning("b");
              log.error("c");
            }),
            "debug: a\nwarning: b\nerror: c\n");
}

TEST_F(LogTest, LinesBelowTheLevelAreLeftOut) {
  LogSettings settings;
  settings.level = LogLevel::kWarning;
  EXPECT_EQ(standard_error_of([&] {
              Log log(settings);
              EXPECT_FALSE(log.enabled(LogLevel::kInfo));
              EXPECT_TRUE(log.enabled(LogLevel::kWarning));
              log.info("a");
              log.every_rank("b");
              log.warning("c");
            }),
            "warning: c\n");
}

TEST_F(LogTest, OffWritesNothing) {
  LogSettings settings;
  settings.level = LogLevel::kOff;
  EXPECT_EQ(standard_error_of([&] { Log(settings).error("a"); }), "");
}

TEST_F(LogTest, OtherRanksWriteOnlyWarningsAndLinesOfEveryRankToStandardError) {
  LogSettings settings;
  settings.rank = 3;
  settings.world_size = 4;
  EXPECT_EQ(standard_error_of([&] {
              Log log(settings);
              log.info("a");
              log.warning("b");
              log.every_rank("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/4");
            }),
            "[rank 3] warning: b\nInitializing distributed: GLOBAL_RANK: 3, MEMBER: 4/4\n");
}

TEST_F(LogTest, EachRankHasItsFileWithAllOfItsLines) {
  LogSettings settings;
  settings.rank = 2;
  settings.directory = folder_ / "new" / "logs";
  standard_error_of([&] {
    Log log(settings);
    log.info("a");
    log.every_rank("b");
    log.error("c");
  });
  EXPECT_EQ(read_file(settings.directory / "rank-2.log"), "a\nb\nerror: c\n");
}

TEST_F(LogTest, RunsThatShareAFileAreToldApart) {
  LogSettings settings;
  settings.directory = folder_;
  standard_error_of([&] {
    for (const char* line : {"a", "b"}) Log(settings).info(line);
  });
  EXPECT_THAT(read_file(folder_ / "rank-0.log"),
              MatchesRegex("a\n--- process [0-9]+ \\(log_test\\) begins at 20[^ ]+Z\nb\n"));
}

TEST_F(LogTest, EveryLineIsInTheFileAtOnceForARankThatIsKilled) {
  LogSettings settings;
  settings.directory = folder_;
  standard_error_of([&] {
    Log log(settings);
    log.info("a");
    EXPECT_EQ(read_file(folder_ / "rank-0.log"), "a\n");
  });
}

TEST_F(LogTest, JsonLinesAreOneObjectEach) {
  LogSettings settings;
  settings.format = LogFormat::kJson;
  settings.rank = 1;
  const std::string text = standard_error_of([&] {
    Log log(settings);
    log.every_rank("two\nlines and a \"quote\"");
    log.warning("broken UTF-8: \xff");
  });
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(first["level"], "info");
  EXPECT_EQ(first["rank"], 1);
  EXPECT_EQ(first["message"], "two\nlines and a \"quote\"");
  EXPECT_THAT(first["time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T..:..:..\\.[0-9][0-9][0-9]Z"));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["level"], "warning");
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(LogTest, LinesOfManyThreadsDoNotMix) {
  LogSettings settings;
  settings.directory = folder_;
  const std::string text = standard_error_of([&] {
    Log log(settings);
    std::vector<std::thread> threads;
    for (char letter : {'a', 'b', 'c', 'd'}) {
      threads.emplace_back([&log, letter] {
        for (int i = 0; i < 200; ++i) log.info(std::string(300, letter));
      });
    }
    for (auto& thread : threads) thread.join();
  });
  for (const std::string& all : {text, read_file(folder_ / "rank-0.log")}) {
    std::istringstream lines(all);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) ASSERT_EQ(line, std::string(300, line[0]));
    EXPECT_EQ(count, 800);
  }
}

TEST_F(LogTest, NoColourWhereStandardErrorIsNoTerminal) {
  EXPECT_THAT(standard_error_of([] { Log({}).error("a"); }), ::testing::Not(HasSubstr("\033")));
}

TEST_F(LogTest, AFolderThatCannotBeMadeIsTheUsersMistake) {
  std::ofstream(folder_ / "file") << "x";
  LogSettings settings;
  settings.directory = folder_ / "file" / "logs";
  try {
    Log log(settings);
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--log-dir"));
    EXPECT_THAT(error.what(), HasSubstr(settings.directory.string()));
  }
}

}  // namespace
}  // namespace cohort::host
