#include <cohort/host/process_state.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace cohort::host {

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  constexpr int kState = 3, kStartTicks = 22;  // fields, from 1
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = kState + 1; field < kStartTicks; ++field) fields >> skipped;
  if (!(fields >> stat.start_ticks)) return std::nullopt;
  return stat;
}

std::string process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code failure;
  const auto pids = std::filesystem::read_symlink("/proc/self/ns/pid", failure);
  return failure || boot.empty() ? "" : boot + " " + pids.string();
}

ProcessId own_process() {
  const auto stat = read_process_stat(::getpid());
  return {::getpid(), stat ? stat->start_ticks : 0, process_space()};
}

ProcessState state_of(const ProcessId& process, const std::string& own_space) {
  if (process.pid == 0 || process.space.empty() || process.space != own_space) return ProcessState::kUnknown;
  const auto stat = read_process_stat(process.pid);
  if (!stat || stat->start_ticks != process.started || stat->state == 'Z' || stat->state == 'X') {
    return ProcessState::kGone;
  }
  return stat->state == 'T' || stat->state == 't' ? ProcessState::kStopped : ProcessState::kRunning;
}

}  // namespace cohort::host
