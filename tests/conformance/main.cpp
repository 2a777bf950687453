// collective_suite: checks that a collective does what cohort/api/collective.h promises.
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/options.hpp>

#include "open_after_trial.hpp"
#include "suite.hpp"
#include "watchdog.hpp"

namespace cohort::conformance {
namespace {

constexpr const char* kUsage =
    "usage: collective_suite --collective=SPEC [options] [--gtest_filter=PATTERN ...]\n"
    "\n"
    "Checks that a collective does what cohort/api/collective.h promises. Ranks are threads, and processes where they\n"
    "are killed or a launcher has started them. Exit code 0: everything that was tried is as promised; lines of "
    "skipped tests say why they are.\n"
    "\n"
    "  --collective=SPEC   as for every program: gloo | gloo,iface=lo | sim,over=shm,latency=1us\n"
    "  --plugin=FILE       a plugin file; repeatable\n"
    "  --plugin-dir=DIR    a folder with plugins; repeatable\n"
    "  --under-launcher    this process is one rank of those that a launcher has started, each with the same "
    "arguments\n"
    "  --ranks-per-node=K  ranks live on several nodes, K on each (default: all on one)\n"
    "  --deterministic     with the sums that the host composes for --deterministic\n"
    "  --rank-ordered      sums are left to right in rank order, though the collective has no flag that says so\n"
    "  --mean-by-share     means of float32 and float64 are sums times 1 / ranks, which is rounded to the type\n"
    "  --composed          with every operation but exchange composed by the host\n"
    "  --patience=N        deadlines are N times as long, for a slow build or machine\n";

constexpr unsigned kSecondsOfATest = 240;

// For all ranks but the first, which tells of every test: what failed.
class Failures : public testing::EmptyTestEventListener {
 public:
  explicit Failures(int rank) : rank_(rank) {}

 private:
  int rank_;

  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "rank %d, %s.%s: %s\n", rank_, test.test_suite_name(), test.name(), part.message());
  }
};

struct Arguments {
  std::optional<Spec> collective;
  host::PluginSearch search;
  std::vector<std::filesystem::path> folders;
  bool deterministic = false;
  bool rank_ordered = false;
  bool mean_by_share = false;
  bool composed = false;
  bool under_launcher = false;
  int ranks_per_node = 0;
  int patience = 1;
};

// The value of --NAME=VALUE; nothing for another argument.
std::optional<std::string> value_of(std::string_view argument, std::string_view name) {
  const std::string flag = "--" + std::string(name) + "=";
  if (argument.substr(0, flag.size()) != flag) return std::nullopt;
  return std::string(argument.substr(flag.size()));
}

int number_above_0(const std::string& text, const std::string& name) {
  const int number = std::atoi(text.c_str());
  if (number < 1) throw UserError("--" + name + ": give a number above 0");
  return number;
}

void read_argument(Arguments& arguments, std::string_view argument) {
  if (const auto spec = value_of(argument, "collective")) {
    arguments.collective = host::parse_spec(*spec, "--collective");
  } else if (const auto file = value_of(argument, "plugin")) {
    arguments.search.files.push_back(std::filesystem::absolute(*file));
  } else if (const auto folder = value_of(argument, "plugin-dir")) {
    arguments.folders.push_back(std::filesystem::absolute(*folder));
  } else if (const auto ranks = value_of(argument, "ranks-per-node")) {
    arguments.ranks_per_node = number_above_0(*ranks, "ranks-per-node");
  } else if (const auto patience = value_of(argument, "patience")) {
    arguments.patience = number_above_0(*patience, "patience");
  } else if (argument == "--under-launcher") {
    arguments.under_launcher = true;
  } else if (argument == "--deterministic") {
    arguments.deterministic = true;
  } else if (argument == "--rank-ordered") {
    arguments.rank_ordered = true;
  } else if (argument == "--mean-by-share") {
    arguments.mean_by_share = true;
  } else if (argument == "--composed") {
    arguments.composed = true;
  } else {
    throw UserError("unknown argument '" + std::string(argument) + "'\n" + kUsage);
  }
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) read_argument(arguments, argv[i]);
  if (!arguments.collective) throw UserError(kUsage);
  arguments.search.directories = host::default_directories(arguments.folders, "", "");
  return arguments;
}

// Where this process is among those of the launcher; they meet in files of a folder of the job.
std::optional<host::Topology> place_of(const Arguments& arguments) {
  if (!arguments.under_launcher) return std::nullopt;
  host::Topology place = host::detect_topology(host::process_environment());
  if (place.launcher == host::Launcher::kNone || place.num_nodes != 1 || !std::getenv(kFolderOfJob)) {
    throw UserError("--under-launcher: start this program with mpirun, on one machine; under another launcher, set " +
                    std::string(kFolderOfJob) + " to an empty folder that only these ranks share");
  }
  return place;
}

void tell_failures_only(int rank) {
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Failures(rank));
}

const Subject*& chosen() {
  static const Subject* subject = nullptr;
  return subject;
}

int run(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  host::LogSettings settings;
  settings.level = host::LogLevel::kWarning;
  host::Log log(settings);
  host::PluginHost plugins(arguments.search, log);
  open_after_trial(plugins, log, host::Kind::kCollective, arguments.collective->name);
  const Subject subject{plugins,
                        *arguments.collective,
                        arguments.deterministic,
                        arguments.rank_ordered,
                        arguments.composed,
                        arguments.mean_by_share,
                        arguments.ranks_per_node,
                        arguments.patience,
                        place_of(arguments)};
  chosen() = &subject;
  if (subject.place && subject.place->rank != 0) tell_failures_only(subject.place->rank);
  native_table();                 // opened here, so that a file that cannot be used is refused before the first test
  std::signal(SIGPIPE, SIG_IGN);  // as in every rank of a program
  watch_tests(kSecondsOfATest * static_cast<unsigned>(subject.patience),
              "the test did not end: a wait of the collective has no deadline");
  // A wire may need all ranks of the launcher the first time, as MPI does; tests come after that for some of them.
  if (subject.place) on_ranks(subject.place->world_size, [](Comm&) {});
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
