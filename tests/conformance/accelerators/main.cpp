// The program accelerator_suite checks that an accelerator does what cohort/api/accelerator.h and kernels.h promise.
#include <cstdio>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <cohort/host/error.hpp>

#include "subject.hpp"
#include "watchdog.hpp"

namespace cohort::conformance {
namespace {

constexpr const char* kUsage =
    "usage: accelerator_suite --accelerator=SPEC [options] [--gtest_filter=PATTERN ...]\n"
    "\n"
    "Checks that an accelerator does what cohort/api/accelerator.h and cohort/api/kernels.h promise: each kernel "
    "against\n"
    "its formula, in place, without elements, on odd addresses, with NaN and infinities, for every type. Exit code 0:\n"
    "everything that was tried is as promised.\n"
    "\n"
    "  --accelerator=SPEC  a name and options: cpu | cpu,isa=baseline\n"
    "  --plugin=FILE       a plugin file; repeatable\n"
    "  --plugin-dir=DIR    a folder with plugins; repeatable\n"
    "  --completed         without the accelerator's own kernels: what the host puts in their place\n";

constexpr unsigned kSecondsOfATest = 60;

bool take(std::string_view argument, std::string_view name, std::string& value) {
  const std::string flag = "--" + std::string(name) + "=";
  if (argument.substr(0, flag.size()) != flag) return false;
  value = argument.substr(flag.size());
  return true;
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::filesystem::path> folders;
  for (std::string value; const std::string_view argument : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    if (take(argument, "accelerator", value)) {
      arguments.accelerator = host::parse_spec(value, "--accelerator");
    } else if (take(argument, "plugin", value)) {
      arguments.search.files.push_back(std::filesystem::absolute(value));
    } else if (take(argument, "plugin-dir", value)) {
      folders.push_back(std::filesystem::absolute(value));
    } else if (argument == "--completed") {
      arguments.completed = true;
    } else {
      throw UserError("unknown argument '" + std::string(argument) + "'\n" + kUsage);
    }
  }
  if (arguments.accelerator.name.empty()) throw UserError(kUsage);
  arguments.search.directories = host::default_directories(folders, "", "");
  return arguments;
}

const Subject*& chosen() {
  static const Subject* subject = nullptr;
  return subject;
}

int run(int argc, char** argv) {
  const Subject subject(read_arguments(argc, argv));
  chosen() = &subject;
  watch_tests(kSecondsOfATest, "the test did not end: a kernel or a wait of the accelerator hangs");
  return RUN_ALL_TESTS();
}

}  // namespace

const Subject& subject() {
  return *chosen();
}

}  // namespace cohort::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  try {
    return cohort::conformance::run(argc, argv);
  } catch (const cohort::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
