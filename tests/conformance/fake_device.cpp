// Suites on memory of the fake device of examples/plugins; ranks take two of its devices in turn.
#include <stdexcept>

#include "device.hpp"
#include "fakedrv.h"

namespace cohort::conformance {
namespace {

void check_driver(int failed) {
  if (failed) throw std::runtime_error(fakedrv_error());
}

fakedrv_stream* of(const cohort_stream& stream) {
  return static_cast<fakedrv_stream*>(stream.native);
}

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(int index) : index_(index) { check_driver(fakedrv_set_device(index)); }

  int32_t type() const override { return COHORT_DEVICE_EXT; }
  int32_t index() const override { return index_; }

  cohort_stream make_stream() override {
    fakedrv_stream* stream = nullptr;
    check_driver(fakedrv_create_stream(index_, &stream));
    return {stream, type(), index_};
  }
  void destroy_stream(const cohort_stream& stream) override { fakedrv_destroy_stream(of(stream)); }
  void wait(const cohort_stream& stream) override { check_driver(fakedrv_wait(of(stream))); }
  void* alloc(uint64_t nbytes, const cohort_stream& stream) override {
    void* memory = nullptr;
    check_driver(fakedrv_alloc(of(stream), nbytes, &memory));
    return memory;
  }
  void release(void* memory, const cohort_stream& stream) override { check_driver(fakedrv_free(memory, of(stream))); }
  void copy(void* to, const void* from, uint64_t nbytes, const cohort_stream& stream) override {
    check_driver(fakedrv_copy(of(stream), to, from, nbytes));
  }

 private:
  int32_t index_;
};

}  // namespace

const char* const kDeviceAccelerator = "fake";

std::unique_ptr<Device> make_device(int rank) {
  constexpr int kUsed = 2;  // so that of three ranks two share a device
  return std::make_unique<FakeDevice>(rank % kUsed);
}

}  // namespace cohort::conformance
