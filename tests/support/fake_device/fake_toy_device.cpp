#include "fake_toy_device.hpp"

#include <stdexcept>

namespace cohort::toy {
namespace {

void check(int failed) {
  if (failed) throw std::runtime_error(fakedrv_error());
}

fakedrv_stream* of(const cohort_stream& stream) {
  return static_cast<fakedrv_stream*>(stream.native);
}

cohort_stream stream_of(fakedrv_stream* stream) {
  return {stream, COHORT_DEVICE_EXT, fakedrv_stream_device(stream)};
}

class Event final : public host::DeviceEvent {
 public:
  explicit Event(fakedrv_stream* stream) {
    check(fakedrv_create_event(&event_));
    check(fakedrv_record(event_, stream));
  }
  ~Event() override { fakedrv_destroy_event(event_); }
  bool is_done() override {
    int is_done = 0;
    check(fakedrv_poll_event(event_, &is_done));
    return is_done != 0;
  }
  const fakedrv_event* get() const { return event_; }

 private:
  fakedrv_event* event_ = nullptr;
};

}  // namespace

// Work that is queued refers to this object.
FakeToyDevice::~FakeToyDevice() {
  for (const host::Device device : devices_) fakedrv_wait_for_device(device.index);
  for (fakedrv_stream* const stream : streams_) fakedrv_destroy_stream(stream);
}

void FakeToyDevice::run(const char* name, const std::vector<Access>& accesses, std::function<void()> work) {
  std::vector<fakedrv_access> all;
  for (const auto& [memory, nbytes, is_write] : accesses) all.push_back({memory, nbytes, is_write ? 1u : 0u, 0});
  using Work = std::function<void()>;
  const auto compute = [](void* arg) {
    (*static_cast<Work*>(arg))();
    return 0;
  };
  const auto drop = [](void* arg) { delete static_cast<Work*>(arg); };
  check(fakedrv_launch(of(current(device())), name, all.data(), all.size(), compute, new Work(std::move(work)), drop));
}

cohort_stream FakeToyDevice::current(host::Device device) {
  return stream_of(fakedrv_current_stream(device.index));
}

void FakeToyDevice::set_current(const cohort_stream& stream) {
  fakedrv_exchange_stream(of(stream));
}

cohort_stream FakeToyDevice::make_stream(host::Device device) {
  fakedrv_stream* made = nullptr;
  check(fakedrv_create_stream(device.index, &made));
  const std::lock_guard lock(mutex_);
  streams_.push_back(made);
  return stream_of(made);
}

std::shared_ptr<host::DeviceEvent> FakeToyDevice::record(const cohort_stream& stream) {
  return std::make_shared<Event>(of(stream));
}

void FakeToyDevice::order(const cohort_stream& stream, host::DeviceEvent& event) {
  check(fakedrv_stream_waits(of(stream), static_cast<Event&>(event).get()));
}

void* FakeToyDevice::alloc(uint64_t nbytes, const cohort_stream& stream) {
  void* memory = nullptr;
  check(fakedrv_alloc(of(stream), nbytes, &memory));
  return memory;
}

void FakeToyDevice::release(void* memory, const cohort_stream& stream) {
  check(fakedrv_free(memory, of(stream)));
}

void FakeToyDevice::wait(host::Device device) {
  check(fakedrv_wait_for_device(device.index));
}

void FakeToyDevice::fill_with_zeros(void* memory, uint64_t nbytes, const cohort_stream& stream) {
  check(fakedrv_fill(of(stream), memory, 0, nbytes));
}

void FakeToyDevice::copy_from_host(void* device, const void* host, uint64_t nbytes, const cohort_stream& stream) {
  check(fakedrv_copy(of(stream), device, host, nbytes));
}

void FakeToyDevice::copy_to_host(void* host, const void* device, uint64_t nbytes, const cohort_stream& stream) {
  check(fakedrv_copy(of(stream), host, device, nbytes));
}

}  // namespace cohort::toy
