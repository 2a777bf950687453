#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include <c10/core/CachingDeviceAllocator.h>

#include <cohort/monitors.hpp>
#include <cohort/runtime.hpp>

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

/// Adds what tensors hold on the devices of the rank, added up. A backend may not count it.
void add_device_memory(const Runtime& runtime, StepValues& values) {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(runtime.device().type()));
  if (!allocator) return;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  double now = 0, peak = 0;
  for (const c10::Device device : runtime.devices()) {
    const auto allocated = allocator->getDeviceStats(device.index()).allocated_bytes[kAll];
    now += static_cast<double>(allocated.current) / kMiB;
    peak += static_cast<double>(allocated.peak) / kMiB;
    allocator->resetPeakStats(device.index());
  }
  values.emplace_back("device_memory_mib", now);
  values.emplace_back("device_memory_peak_mib", peak);
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
  if (!fit.runtime().device().is_cpu()) add_device_memory(fit.runtime(), values);
}

}  // namespace cohort
