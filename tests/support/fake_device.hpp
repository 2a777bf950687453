// Memory of a device that is not there: code of the host that touches it ends with a fault.
//
// What the accelerator `device` (tests/support/plugins/device.cpp) copies lies kDistance above the address that a
// "device pointer" has. The test fills and reads it there.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace cohort::test {

class DeviceMemory {
 public:
  static constexpr int32_t kDeviceType = 12;
  static constexpr std::size_t kDistance = std::size_t{1} << 28;
  /// The accelerator refuses to copy just as many.
  static constexpr std::size_t kRefusedBytes = 1012;

  explicit DeviceMemory(std::size_t nbytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const memory = nbytes < kDistance ? ::mmap(nullptr, 2 * kDistance, PROT_NONE, flags, -1, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    ::mprotect(memory_ + kDistance, nbytes + 1, PROT_READ | PROT_WRITE);
  }
  ~DeviceMemory() { ::munmap(memory_, 2 * kDistance); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// What an operation is given.
  std::byte* device() const { return memory_; }
  /// Where the test sees the same bytes.
  std::byte* contents() const { return memory_ + kDistance; }

 private:
  std::byte* memory_;
};

}  // namespace cohort::test
