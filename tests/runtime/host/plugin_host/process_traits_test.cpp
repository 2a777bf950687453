#include "plugin_host/process_traits.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <cohort/host/in_child.hpp>

namespace cohort::host {
namespace {

// Runs the change in a child process, because that has one thread and takes its changes with it.
std::string harm_of(const std::function<void()>& change) {
  return in_child("a change", std::chrono::seconds(20), [&] {
    const ProcessTraits before;
    change();
    return ProcessTraits().harm_since(before);
  });
}

TEST(ProcessTraits, NamesEachChange) {
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
  for (const auto& [trait, change] : changes) EXPECT_EQ(harm_of(change), "changes " + trait);
}

TEST(ProcessTraits, NameAClosedFile) {
  const int file = ::dup(STDERR_FILENO);
  EXPECT_EQ(harm_of([file] { ::close(file); }), "closes files (descriptor " + std::to_string(file) + ")");
  ::close(file);
}

TEST(ProcessTraits, AreEqualWithoutAChange) {
  EXPECT_EQ(harm_of([] { std::fesetround(std::fegetround()); }), "");
}

}  // namespace
}  // namespace cohort::host
