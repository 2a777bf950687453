#include <cohort/host/crash_report.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace cohort::host {
namespace {

using namespace std::chrono_literals;
using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

[[noreturn]] void be_called(const std::function<void()>& work, std::chrono::milliseconds deadline = 60s) {
  std::signal(SIGSEGV, SIG_DFL);  // AddressSanitizer handles it and ends the process with an exit code
  Log log({});
  const CrashReport report(log);
  {
    const PluginCall call(log, "strategy 'wild'", "create", deadline);
    work();
  }
  ::_exit(0);
}

void fail() {
  throw std::runtime_error("no licence");
}

TEST(PluginCall, NamesPluginAndFunctionOfACrash) {
  EXPECT_EXIT(be_called([] { std::abort(); }), KilledBySignal(SIGABRT),
              "error: strategy 'wild' crashed with SIGABRT in its create; ask its authors");
  EXPECT_EXIT(be_called([] { ::kill(::getpid(), SIGSEGV); }), KilledBySignal(SIGSEGV), "crashed with SIGSEGV in its");
}

TEST(PluginCall, BlamesNobodyForASignalFromAnotherProcess) {
  for (const int number : {SIGABRT, SIGSEGV}) {
    EXPECT_EXIT(be_called([number] {
                  if (::fork() == 0) ::_exit(::kill(::getppid(), number));
                  while (true) ::pause();
                }),
                KilledBySignal(number), "^$");
  }
}

TEST(PluginCall, NamesPluginAndFunctionOfAnException) {
  EXPECT_EXIT(be_called([]() noexcept { fail(); }), ExitedWithCode(3),
              "error: strategy 'wild' threw 'no licence' out of its create; functions of a plugin return a status");
}

TEST(PluginCall, EndsTheProcessAtTheDeadline) {
  EXPECT_EXIT(be_called(
                  [] {
                    while (true) ::pause();
                  },
                  50ms),
              ExitedWithCode(3), "error: strategy 'wild' was not done within 50 ms in its create; ask its authors");
}

TEST(PluginCall, IsOverWhenTheFunctionReturns) {
  EXPECT_EXIT(be_called([] {}), ExitedWithCode(0), "^$");
  EXPECT_EXIT(
      {
        Log log({});
        const CrashReport report(log);
        { const PluginCall call(log, "strategy 'wild'", "create"); }
        std::abort();
      },
      KilledBySignal(SIGABRT), "^$");
}

TEST(PluginCall, BlamesNobodyForACrashOfAnotherThread) {
  EXPECT_EXIT(be_called([] { std::thread([] { std::abort(); }).join(); }), KilledBySignal(SIGABRT), "^$");
}

TEST(CrashReport, TellsAnExceptionThatNothingCatches) {
  EXPECT_EXIT(
      {
        Log log({});
        const CrashReport report(log);
        std::thread([] { throw std::runtime_error("the loop\nbroke"); }).join();
      },
      ExitedWithCode(1), "error: an exception that nothing caught ended the program: 'the loop.x0abroke'");
}

TEST(CrashReport, WritesJsonWhereTheLogDoes) {
  EXPECT_EXIT(
      {
        LogSettings settings;
        settings.format = LogFormat::kJson;
        Log log(settings);
        const CrashReport report(log);
        const PluginCall call(log, "strategy 'wild'", "plan");
        std::abort();
      },
      KilledBySignal(SIGABRT), "^[{].*\"message\":\"strategy 'wild' crashed with SIGABRT in its plan; .*\"[}]");
}

TEST(CrashReport, LeavesAFaultToTheEarlierHandler) {
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_sigaction = [](int, siginfo_t* info, void*) {
          ::_exit(info->si_code == SEGV_MAPERR && info->si_addr == reinterpret_cast<void*>(8) ? 7 : 1);
        };
        action.sa_flags = SA_SIGINFO;
        ::sigaction(SIGSEGV, &action, nullptr);
        Log log({});
        const CrashReport report(log);
        volatile uintptr_t nowhere = 8;  // which the compiler does not see through
        *reinterpret_cast<volatile int*>(nowhere) = 1;
      },
      ExitedWithCode(7), "^$");
}

TEST(CrashReport, LeavesTheHandlersThatThereWere) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { ::_exit(7); });
        Log log({});
        {
          const CrashReport report(log);
          ::raise(SIGSEGV);
        }
      },
      ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace cohort::host
