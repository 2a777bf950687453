#include <cohort/host/crash_report.hpp>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <cohort/host/activity.hpp>

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
    const PluginCall call(log, "strategy 'wild'", "create", PluginCall::Crash::kIsSignal, deadline);
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
      KilledBySignal(SIGABRT), "^error: the program crashed with SIGABRT; run it in a debugger[^\n]*\n$");
}

TEST(PluginCall, IsNotBlamedForACrashOfAnotherThread) {
  EXPECT_EXIT(be_called([] {
                std::thread([] {
                  ::pthread_setname_np(::pthread_self(), "a \"b\"");
                  std::abort();
                }).join();
              }),
              KilledBySignal(SIGABRT), "^error: the program crashed with SIGABRT in its thread 'a .b.'; run it");
}

/// Puts a number into words.
void tell_number(const void* number, TextInRoom& text) {
  text << "step " << *static_cast<const int64_t*>(number);
}

[[noreturn]] void crash_in_step_131(int signal) {
  std::signal(signal, SIG_DFL);  // AddressSanitizer handles some
  Log log({});
  const CrashReport report(log);
  const int64_t number = 131, inner = 7;
  const Activity activity(&number, tell_number);
  { const Activity over(&inner, tell_number); }
  std::raise(signal);
  ::_exit(0);
}

TEST(CrashReport, NamesSignalAndActivityOfTheProgram) {
  const std::map<int, std::string> signals{
      {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGABRT, "SIGABRT"}, {SIGILL, "SIGILL"}};
  for (const auto& [signal, name] : signals) {
    EXPECT_EXIT(crash_in_step_131(signal), KilledBySignal(signal),
                "^error: the program crashed with " + name + " in step 131; run it in a debugger");
  }
}

int depth_of(const volatile int& stops) {
  std::array<volatile int, 1024> frame{};
  frame[0] = 1;
  return stops != 0 ? frame[0] : depth_of(stops) + frame[0];
}

TEST(CrashReport, TellsThatTheStackHasOverflowed) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);
        Log log({});
        const CrashReport report(log);
        volatile int never = 0;
        depth_of(never);
      },
      KilledBySignal(SIGSEGV), "^error: the program crashed with SIGSEGV; run it");
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
