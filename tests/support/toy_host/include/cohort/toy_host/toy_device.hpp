// A toy model's numbers are in host memory, where work on them runs at once, or on a device, where it runs in the order
// of the calling thread's stream.
//
// A ToyDevice belongs to one rank, whose threads may all call it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <cohort/host/device_port.hpp>

namespace cohort::toy {

/// Works in host memory. A device overrides every member.
class ToyDevice {
 public:
  /// Bytes that a piece of work reads, or reads and writes.
  struct Access {
    void* memory;
    uint64_t nbytes;
    bool is_write;
  };

  virtual ~ToyDevice() = default;
  virtual host::Device device() const { return {}; }
  /// Returns null if there are no streams.
  virtual host::DevicePort* port() { return nullptr; }
  /// Runs the work, which finds bytes by contents(). `name` is for messages.
  virtual void run(const char* /*name*/, const std::vector<Access>&, std::function<void()> work) { work(); }
  virtual void* contents(void* memory) const { return memory; }

  host::RankDevices devices() { return host::RankDevices(port()); }
};

}  // namespace cohort::toy
