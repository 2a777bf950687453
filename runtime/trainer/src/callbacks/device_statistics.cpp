#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include <cohort/monitors.hpp>
#include <cohort/runtime.hpp>

#include "report/device_memory.hpp"

namespace cohort {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;  // in pages
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / kMiB;
}

}  // namespace

void DeviceStatistics::on_fit_start(Fit& /*fit*/) {
  at_ = std::chrono::steady_clock::now();
  cpu_seconds_ = cpu_seconds();
}

void DeviceStatistics::on_step_values(Fit& fit, StepValues& values) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - at_).count();
  const double cpu = cpu_seconds();
  values.emplace_back("host_memory_mib", resident_mib());
  if (seconds > 0) values.emplace_back("cpu_percent", 100 * (cpu - cpu_seconds_) / seconds);
  at_ = now;
  cpu_seconds_ = cpu;
  if (const auto memory = device_memory(fit.runtime())) {
    values.emplace_back("device_memory_mib", memory->now);
    values.emplace_back("device_memory_peak_mib", memory->peak);
  }
}

}  // namespace cohort
