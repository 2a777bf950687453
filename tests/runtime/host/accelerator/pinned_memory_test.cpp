// When pinned memory serves the next call: behind the copies of the one before, or never if the device has failed.
#include <gtest/gtest.h>

#include <array>

#include <cohort/host/error.hpp>

#include "accelerator/pinned_memory.hpp"

namespace cohort::host {
namespace {

LogSettings quiet() {
  LogSettings settings;
  settings.level = LogLevel::kOff;
  return settings;
}

/// An accelerator that counts what is enqueued and waited for.
class Counting {
 public:
  Counting() {
    vt_.struct_size = sizeof vt_;
    vt_.alloc_pinned = [](cohort_accelerator* a, uint64_t, void** memory) noexcept {
      Counting& own = of(a);
      *memory = &own.memory_.at(own.num_allocated_++);
      return COHORT_OK;
    };
    vt_.free_pinned = [](cohort_accelerator* a, void*) noexcept { ++of(a).num_freed; };
    vt_.copy_to_host = [](cohort_accelerator* a, void*, const void*, uint64_t, const cohort_stream*) noexcept {
      ++of(a).num_enqueued;
      return COHORT_OK;
    };
    vt_.wait = [](cohort_accelerator* a, const cohort_stream*) noexcept {
      Counting& own = of(a);
      ++own.num_waits;
      if (own.wait_fails) return a->host->fail(a->host, COHORT_INTERNAL, "the device is lost");
      own.num_enqueued = 0;
      return COHORT_OK;
    };
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  HostObject& host() { return host_; }
  cohort_accelerator& accelerator() { return accelerator_; }
  bool wait_fails = false;
  int num_enqueued = 0, num_waits = 0, num_freed = 0;

 private:
  static Counting& of(cohort_accelerator* a) { return *static_cast<Counting*>(a->data); }

  Log log_{quiet()};
  HostObject host_{log_};
  cohort_accelerator_vt vt_{};
  cohort_accelerator accelerator_{sizeof accelerator_, 0, &vt_, this, host_.get()};
  std::array<std::byte, 8> memory_{};
  size_t num_allocated_ = 0;
};

constexpr cohort_stream kStream{nullptr, COHORT_DEVICE_EXT, 0};

/// Returns the memory of a call that ends before it has waited.
const std::byte* end_too_early(PinnedMemory& pinned) {
  StagedCopies copies(pinned, kStream);
  std::byte* const place = copies.take(1, 1);
  copies.to_host(place, nullptr, 1);
  return place;
}

TEST(PinnedMemory, ServesTheNextCallWhenCopiesAreDone) {
  Counting device;
  {
    PinnedMemory pinned(device.accelerator(), device.host());
    const std::byte* const first = end_too_early(pinned);
    EXPECT_EQ(device.num_enqueued, 0) << "it was given back before the copy was done";
    EXPECT_EQ(device.num_waits, 1);
    StagedCopies copies(pinned, kStream);
    EXPECT_EQ(copies.take(1, 1), first);
    copies.to_host(nullptr, nullptr, 0);
    copies.wait();
  }
  EXPECT_EQ(device.num_waits, 2) << "nobody waits twice, or for copies of no bytes";
  EXPECT_EQ(device.num_freed, 1);
}

TEST(PinnedMemory, ServesNobodyWhenTheDeviceHasFailed) {
  Counting device;
  {
    PinnedMemory pinned(device.accelerator(), device.host());
    device.wait_fails = true;
    const std::byte* const lost = end_too_early(pinned);
    StagedCopies copies(pinned, kStream);
    EXPECT_NE(copies.take(1, 1), lost);
    EXPECT_THROW(copies.wait(), Error);
  }
  EXPECT_EQ(device.num_freed, 1) << "the device may still write to the other one";
}

}  // namespace
}  // namespace cohort::host
