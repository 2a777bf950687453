#include "program/start_time.hpp"

#include <time.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace cohort {
namespace {

using std::chrono::nanoseconds;

nanoseconds now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// Field 22 of /proc/self/stat: clock ticks between boot and the start of this process.
std::optional<nanoseconds> start_since_boot() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  int64_t ticks = 0;
  if (std::from_chars(field.data(), field.data() + field.size(), ticks).ec != std::errc()) return std::nullopt;
  return nanoseconds(ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
}

}  // namespace

nanoseconds run_start_time(const host::Variables& variables) {
  if (const auto given = variables.find(kStartTimeVariable); given != variables.end()) {
    int64_t value = 0;
    const auto& text = given->second;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && value > 0) return nanoseconds(value);
  }
  const auto realtime = now(CLOCK_REALTIME);
  const auto since_boot = start_since_boot();
  return since_boot ? realtime - (now(CLOCK_BOOTTIME) - *since_boot) : realtime;
}

}  // namespace cohort
