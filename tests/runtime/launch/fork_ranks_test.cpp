#include <cohort/launch/fork_ranks.hpp>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}

/// A page that forks share with this process, filled with zeros.
class SharedPage {
 public:
  SharedPage()
      : text_(static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedPage() { ::munmap(text_, kBytes); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  void write(int rank, const std::string& text) { text.copy(text_ + rank * kBytesOfRank, kBytesOfRank - 1); }
  std::string read(int rank) const { return text_ + rank * kBytesOfRank; }

 private:
  static constexpr int kBytes = 4096, kBytesOfRank = 512;
  char* text_;
};

struct Outcome {
  RanksEnd end;
  std::string log;
};

Outcome run(int processes, const std::function<int()>& be_a_rank) {
  LaunchJob job;
  job.processes_per_node = processes;
  job.stop_grace = job.failure_grace = 300ms;
  ::testing::internal::CaptureStderr();
  RanksEnd end;
  {
    host::Log log({});
    end = fork_ranks(job, log, be_a_rank);
  }
  return {end, ::testing::internal::GetCapturedStderr()};
}

TEST(ForkRanks, EveryForkHasTheVariablesOfALaunchedRankAndThisProcessNone) {
  SharedPage page;
  const auto outcome = run(2, [&] {
    page.write(std::stoi(variable("RANK")), variable("LOCAL_RANK") + " of " + variable("WORLD_SIZE") + ", " +
                                                variable("LOCAL_WORLD_SIZE") + " here, " + variable("MASTER_ADDR"));
    return 0;
  });
  EXPECT_EQ(outcome.end.exit_code, 0);
  EXPECT_EQ(page.read(0), "0 of 2, 2 here, 127.0.0.1");
  EXPECT_EQ(page.read(1), "1 of 2, 2 here, 127.0.0.1");
  for (const char* name : {"RANK", "WORLD_SIZE", "COHORT_RUN_ID", "COHORT_STORE_FD"}) {
    EXPECT_EQ(variable(name), "unset") << name;
  }
}

TEST(ForkRanks, TheFirstFailureGivesTheCodeAndEndsTheOthers) {
  const auto outcome = run(3, []() -> int {
    if (variable("RANK") == "1") return 3;
    while (true) ::pause();
  });
  EXPECT_EQ(outcome.end.exit_code, 3);
  EXPECT_EQ(outcome.end.stop_signal, 0);
  EXPECT_THAT(outcome.log, HasSubstr("ended with exit code 3"));
}

TEST(ForkRanks, WhatIsThrownStaysInTheForkAndIsAFailure) {
  EXPECT_EQ(run(1, []() -> int { throw std::runtime_error("into the caller's stack"); }).end.exit_code, 1);
}

TEST(ForkRanks, WhatWasBufferedIsWrittenOnce) {
  std::FILE* const file = std::tmpfile();
  std::fputs("before;", file);
  run(2, [&] {
    std::fputs("rank;", file);
    return 0;
  });
  std::fputs("after", file);
  std::rewind(file);
  std::string text(100, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text, "before;rank;rank;after");
}

TEST(ForkRanks, AnInterruptIsPassedOnToForksWhoseSignalsAreOpen) {
  const auto outcome = run(2, []() -> int {
    if (variable("RANK") == "0") ::kill(::getppid(), SIGINT);
    while (true) ::pause();
  });
  EXPECT_EQ(outcome.end.exit_code, 128 + SIGINT);
  EXPECT_EQ(outcome.end.stop_signal, SIGINT);
}

TEST(ForkRanks, ForksThatComeToTheirEndAfterAnInterruptStillCountAsInterrupted) {
  const auto outcome = run(1, [] {
    ::signal(SIGINT, SIG_IGN);
    ::kill(::getppid(), SIGINT);
    return 0;
  });
  EXPECT_EQ(outcome.end.stop_signal, SIGINT);
}

}  // namespace
}  // namespace cohort::launch
