#include "failure/process_state.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace cohort {

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

}  // namespace cohort
