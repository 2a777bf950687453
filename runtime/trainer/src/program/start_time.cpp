#include "program/start_time.hpp"

#include <time.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <string>

#include <cohort/host/process_state.hpp>

namespace cohort {
namespace {

using std::chrono::nanoseconds;

nanoseconds now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

std::optional<nanoseconds> start_since_boot() {
  const auto stat = host::read_process_stat(::getpid());
  if (!stat) return std::nullopt;
  return nanoseconds(static_cast<int64_t>(stat->start_ticks) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
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
