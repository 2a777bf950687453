#include "plugin_host/probe.hpp"

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;
using Open = std::function<void(const StageReport&)>;

std::string refusal(const Open& open, std::chrono::milliseconds deadline = 20s) {
  try {
    probe_plugin("/x/cohort_x.so", deadline, open);
  } catch (const PluginRefused& error) {
    return error.what();
  }
  return "done";
}

TEST(Probe, IsDoneWhenOpeningReturnsOrThrows) {
  EXPECT_EQ(refusal([](const StageReport&) {}), "done");
  EXPECT_EQ(refusal([](const StageReport&) { throw std::runtime_error("thrown here too"); }), "done");
}

TEST(Probe, NamesTheStageAndTheSignal) {
  EXPECT_THAT(refusal([](const StageReport& report) {
                report(OpenStage::kChecking);
                ::raise(SIGBUS);
              }),
              HasSubstr("it crashed with SIGBUS while its descriptor was read"));
}

TEST(Probe, SeesThroughAChildThatClosesEverythingAndHangs) {
  EXPECT_THAT(refusal(
                  [](const StageReport& report) {
                    report(OpenStage::kInit);
                    ::closefrom(0);
                    while (true) ::pause();
                  },
                  1s),
              HasSubstr("it was not done within 1000 ms in its init"));
}

TEST(Probe, NamesTheDescriptorThatAPluginCloses) {
  const int file = ::dup(STDERR_FILENO);
  const std::string text = refusal([file](const StageReport& report) {
    report(OpenStage::kInit);
    ::close(file);
  });
  ::close(file);
  EXPECT_THAT(text, HasSubstr("it closes files of the program (descriptor " + std::to_string(file) + ")"));
  EXPECT_THAT(refusal([](const StageReport&) { ::closefrom(0); }), HasSubstr("(descriptor 0)"));
}

TEST(Probe, NamesWhatAPluginChangesForTheProcess) {
  const std::map<std::string, std::function<void()>> changes = {
    {"the locale", [] { std::setlocale(LC_NUMERIC, "C.UTF-8"); }},
    {"the working directory", [] { static_cast<void>(::chdir("/")); }},
    {"the environment", [] { ::setenv("COHORT_TEST_LEFT", "1", 1); }},
    {"the umask", [] { ::umask(0123); }},
    {"signal handlers", [] { std::signal(SIGUSR2, [](int) {}); }},
    {"the floating-point mode", [] { std::fesetround(FE_UPWARD); }},
#if !defined(__SANITIZE_THREAD__)  // which starts threads of its own
    {"the number of threads",
     [] {
       std::thread([] {
         while (true) ::pause();
       }).detach();
     }},
#endif
  };
  for (const auto& [trait, change] : changes) {
    EXPECT_THAT(refusal([&](const StageReport&) { change(); }),
                HasSubstr("it changes " + trait + " of the program while it is loaded or in its init; ask"));
  }
}

TEST(Probe, WorksWithoutStandardStreams) {
  std::string texts;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int kept = ::dup(stream);
    ::close(stream);
    texts += refusal([](const StageReport&) {}) + ";";
    ::dup2(kept, stream);
    ::close(kept);
  }
  EXPECT_EQ(texts, "done;done;done;");
}

TEST(Probe, KeepsTheChildsOutputAway) {
  ::testing::internal::CaptureStdout();
  refusal([](const StageReport&) {
    const char text[] = "from the child\n";
    if (::write(STDOUT_FILENO, text, sizeof(text) - 1) < 0) ::_exit(9);
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(Probe, LeavesNoProcessBehind) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  refusal([&](const StageReport&) {
    // A grandchild that would hold the pipe open for ever.
    if (::fork() == 0) {
      while (true) ::pause();
    }
    ::abort();
  });
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the grandchild lives";
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace cohort::host
