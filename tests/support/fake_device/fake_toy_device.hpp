// A toy model's numbers on a fake device: the host's port and the toy's over the driver of
// examples/plugins/fake_device.
//
// Threads: any.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <cohort/toy_host/toy_device.hpp>

#include "fakedrv.h"

namespace cohort::toy {

class FakeToyDevice : public ToyDevice, protected host::DevicePort {
 public:
  /// `index`: 0 or 1.
  explicit FakeToyDevice(int index) : devices_{{{COHORT_DEVICE_EXT, index}}} {}
  ~FakeToyDevice() override;

  host::Device device() const override { return devices_[0]; }
  host::DevicePort* port() override { return this; }
  void run(const char* name, const std::vector<Access>& accesses, std::function<void()> work) override;
  void* contents(void* memory) const override { return fakedrv_contents(memory); }

 protected:
  cohort_stream make_stream(host::Device device) override;
  std::shared_ptr<host::DeviceEvent> record(const cohort_stream& stream) override;
  void order(const cohort_stream& stream, host::DeviceEvent& event) override;

 private:
  std::array<host::Device, 1> devices_;
  std::mutex mutex_;
  std::vector<fakedrv_stream*> streams_;

  std::span<const host::Device> devices() const override { return devices_; }
  cohort_stream current(host::Device device) override;
  void set_current(const cohort_stream& stream) override;
  void* alloc(uint64_t nbytes, const cohort_stream& stream) override;
  void release(void* memory, const cohort_stream& stream) override;
  void wait(host::Device device) override;
  void fill_with_zeros(void* memory, uint64_t nbytes, const cohort_stream& stream) override;
  void copy_from_host(void* device, const void* host, uint64_t nbytes, const cohort_stream& stream) override;
  void copy_to_host(void* host, const void* device, uint64_t nbytes, const cohort_stream& stream) override;
};

}  // namespace cohort::toy
