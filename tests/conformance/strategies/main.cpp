// strategy_suite: checks that a strategy does what cohort/api/strategy.h promises.
#include <csignal>
#include <cstdio>
#include <string_view>

#include <gtest/gtest.h>

#include <cohort/host/error.hpp>

#include "subject.hpp"
#include "watchdog.hpp"

namespace cohort::conformance {
namespace {

constexpr unsigned kSecondsOfATest = 120;

const Subject*& chosen() {
  static const Subject* subject = nullptr;
  return subject;
}

// Arguments come first: the tests are made for the shapes that the strategy plans.
int run(int argc, char** argv) {
  const Subject subject(arguments_from(argc, argv));
  chosen() = &subject;
  testing::InitGoogleTest(&argc, argv);
  std::signal(SIGPIPE, SIG_IGN);  // as in every rank of a program
  watch_tests(kSecondsOfATest * static_cast<unsigned>(subject.given().patience),
              "the test did not end: a wait of the strategy has no deadline");
  return RUN_ALL_TESTS();
}

}  // namespace

const Subject& subject() {
  return *chosen();
}

}  // namespace cohort::conformance

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::printf("%s", cohort::conformance::kUsage);
    return 0;
  }
  try {
    return cohort::conformance::run(argc, argv);
  } catch (const cohort::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
