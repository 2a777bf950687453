// Operations on a device for tests that read and write host memory.
//
// What an operation is given is copied to the device before, and what it may have written is copied back behind it.
// The copies on the device have the host's alignment, and bytes around them that must not change. Memory from `alloc`
// is the device's and has a twin on the host, which the tests get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device.hpp"

namespace cohort::conformance {

/// Memory of a rank that `alloc` has given. Threads: any.
class DeviceMemories {
 public:
  /// Returns host memory that stands for the device's.
  void* add(Device& device, void* memory, uint64_t nbytes);
  /// Forgets it and returns the device's memory.
  void* remove(void* host_memory);
  /// Returns where on the device the byte lies, or null.
  std::byte* find(const void* host_byte);

 private:
  struct Twin {
    std::unique_ptr<std::byte[]> storage;
    std::byte* device;
    uint64_t nbytes;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Twin> twins_;
};

/// The memory of one operation.
class OnDevice {
 public:
  OnDevice(Device& device, DeviceMemories& memories, const cohort_stream& stream)
      : device_(device), memories_(memories), stream_(stream) {}
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  /// Copies two ranges, which may overlap, and makes the pointers the device's.
  void take(const void*& input, uint64_t input_bytes, void*& output, uint64_t output_bytes);
  /// Copies back. Throws std::runtime_error where bytes around a range have changed.
  void give_back();

 private:
  struct Range {
    const std::byte* host;
    uint64_t nbytes;
    std::byte* device;
    std::byte* block;  // with the bytes around it; null: of `alloc`
  };
  Device& device_;
  DeviceMemories& memories_;
  cohort_stream stream_;
  std::vector<Range> ranges_;

  std::byte* place(const void* memory, uint64_t nbytes);
  void require_guards(const Range& range);
};

}  // namespace cohort::conformance
