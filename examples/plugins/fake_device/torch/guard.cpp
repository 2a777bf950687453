// The current device, streams and events, as all of LibTorch asks for them.
#include <array>
#include <mutex>
#include <vector>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "allocator.hpp"
#include "device.hpp"

namespace fake_torch {
namespace {

// Streams that are made once and served in turn, as CUDA's are.
class StreamPool {
 public:
  static StreamPool& get() {
    static StreamPool& pool = *new StreamPool;
    return pool;
  }

  fakedrv_stream* next(c10::Device device) {
    constexpr size_t kStreams = 32;
    const std::lock_guard lock(mutex_);
    auto& [streams, served] = devices_[static_cast<size_t>(device.index())];
    if (streams.size() < kStreams) {
      fakedrv_stream* made = nullptr;
      check(fakedrv_create_stream(device.index(), &made));
      streams.push_back(made);
    }
    return streams[served++ % kStreams];
  }

 private:
  struct Device {
    std::vector<fakedrv_stream*> streams;
    size_t served = 0;
  };
  std::mutex mutex_;
  std::array<Device, FAKEDRV_DEVICES> devices_;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kFake; }
  c10::DeviceIndex deviceCount() const noexcept override { return FAKEDRV_DEVICES; }

  c10::Device getDevice() const override { return current_device(); }
  void setDevice(c10::Device device) const override { check(fakedrv_set_device(whole(device).index())); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) fakedrv_set_device(device.index());
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = current_device();
    setDevice(device);
    return before;
  }

  c10::Stream getStream(c10::Device device) const override { return named(current_stream(whole(device))); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, whole(device));
  }
  // All streams are equal: a priority is accepted and changes nothing.
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return named(StreamPool::get().next(whole(device)));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return named(fakedrv_exchange_stream(stream_of(stream)));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return stream_of(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    int is_done = 0;
    check(fakedrv_poll(stream_of(stream), &is_done));
    return is_done != 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override { check(fakedrv_wait(stream_of(stream))); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { check(fakedrv_wait_for_device(index)); }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    record_use(memory, stream);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) {
      fakedrv_event* made = nullptr;
      check(fakedrv_create_event(&made));
      *event = made;
    }
    check(fakedrv_record(static_cast<fakedrv_event*>(*event), stream_of(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) check(fakedrv_stream_waits(stream_of(stream), static_cast<fakedrv_event*>(event)));
  }
  bool queryEvent(void* event) const override {
    int is_done = 1;
    if (event) check(fakedrv_poll_event(static_cast<fakedrv_event*>(event), &is_done));
    return is_done != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event) check(fakedrv_wait_for_event(static_cast<fakedrv_event*>(event)));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event) fakedrv_destroy_event(static_cast<fakedrv_event*>(event));
  }
};

const c10::impl::DeviceGuardImplRegistrar registered_guard(kFake, new Guard);

}  // namespace
}  // namespace fake_torch
