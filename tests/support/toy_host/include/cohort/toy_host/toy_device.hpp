// Where the numbers of a toy model are, and how work on them runs: in host memory at once, or on a device in the order
// of the calling thread's stream.
//
// Belongs to one rank, whose threads may all call it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <cohort/host/device_port.hpp>

namespace cohort::toy {

/// Host memory; a device overrides all of it.
class ToyDevice {
 public:
  /// Bytes that a work reads, or reads and writes.
  struct Access {
    void* memory;
    uint64_t nbytes;
    bool is_write;
  };

  virtual ~ToyDevice() = default;
  virtual host::Device device() const { return {}; }
  /// Null: no streams.
  virtual host::DevicePort* port() { return nullptr; }
  /// `name` is for messages; `work` finds bytes by contents().
  virtual void run(const char* /*name*/, const std::vector<Access>&, std::function<void()> work) { work(); }
  virtual void* contents(void* memory) const { return memory; }

  host::RankDevices devices() { return host::RankDevices(port()); }
};

}  // namespace cohort::toy
