// Ranks of launch_test_rank that a launcher starts, in this process or in another.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <cohort/launch/launch.hpp>

#include "child_launcher.hpp"

namespace cohort::launch {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    std::string name = (fs::temp_directory_path() / "cohort-launch-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~LaunchTest() override { fs::remove_all(folder_); }

  /// Ranks write their variables first, or just before they wait.
  LaunchJob job(int processes, std::vector<std::string> steps) const {
    LaunchJob job;
    job.command = {LAUNCH_TEST_RANK};
    const auto wait = std::find(steps.begin(), steps.end(), "wait");
    steps.insert(wait == steps.end() ? steps.begin() : wait, "write=" + folder_.string());
    job.command.insert(job.command.end(), steps.begin(), steps.end());
    job.processes_per_node = processes;
    job.stop_grace = job.failure_grace = 300ms;
    return job;
  }

  struct Outcome {
    int code;
    std::string log;
  };
  /// Launches in this process.
  Outcome run(const LaunchJob& job) {
    ::testing::internal::CaptureStderr();
    int code = -1;
    {
      host::Log log({});
      code = launch(job, log);
    }
    return {code, ::testing::internal::GetCapturedStderr()};
  }

  /// Launches in a child process, calls `then` with its pid once all ranks have written, and waits for it.
  template <class Then>
  int run_apart(const LaunchJob& job, int ranks, Then then) {
    const auto run = [&] {
      host::Log log({});
      return launch(job, log);
    };
    const auto has_written = [&](int rank) { return fs::exists(folder_ / ("rank-" + std::to_string(rank))); };
    return launch_in_child(run, ranks, has_written, then);
  }

  std::map<std::string, std::string> written(int rank) const {
    std::ifstream file(folder_ / ("rank-" + std::to_string(rank)));
    std::map<std::string, std::string> values;
    for (std::string line; std::getline(file, line);) {
      const std::size_t equals = line.find('=');
      values[line.substr(0, equals)] += line.substr(equals + 1);
    }
    return values;
  }

  static bool is_running(const std::string& pid) { return ::kill(static_cast<pid_t>(std::stol(pid)), 0) == 0; }

  fs::path folder_;
};

}  // namespace cohort::launch
