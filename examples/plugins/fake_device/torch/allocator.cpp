#include "allocator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace fake_torch {
namespace {

/// Counts the memory of tensors, as LibTorch's allocators do; other memory of the driver does not count.
class Count {
 public:
  struct Bytes {
    int64_t now = 0, most = 0;
  };

  void add(const void* memory, c10::DeviceIndex index, size_t nbytes) {
    const std::lock_guard lock(mutex_);
    Bytes& bytes = bytes_.at(static_cast<size_t>(index));
    sizes_[memory] = {index, static_cast<int64_t>(nbytes)};
    bytes.now += static_cast<int64_t>(nbytes);
    bytes.most = std::max(bytes.most, bytes.now);
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return;
    bytes_.at(static_cast<size_t>(found->second.first)).now -= found->second.second;
    sizes_.erase(found);
  }
  Bytes of(c10::DeviceIndex index) {
    const std::lock_guard lock(mutex_);
    return bytes_.at(static_cast<size_t>(index));
  }
  void forget_most(c10::DeviceIndex index) {
    const std::lock_guard lock(mutex_);
    Bytes& bytes = bytes_.at(static_cast<size_t>(index));
    bytes.most = bytes.now;
  }

 private:
  std::mutex mutex_;
  std::array<Bytes, FAKEDRV_DEVICES> bytes_;
  std::unordered_map<const void*, std::pair<c10::DeviceIndex, int64_t>> sizes_;
};

Count& count() {
  static Count& only = *new Count;  // outlives all tensors
  return only;
}

void give_back(void* memory) {
  count().remove(memory);
  fakedrv_release(memory);
}

std::atomic<bool> is_initialized{false};

class Devices final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    TORCH_CHECK(is_initialized, "the allocator of the fake device is not initialized: did you call init?");
    return allocate_on(current_device(), nbytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t nbytes) const override {
    check(fakedrv_copy(current_stream(device_at(fakedrv_device_of(to))), to, from, nbytes));
  }

  bool initialized() override { return is_initialized; }
  void emptyCache(c10::MempoolId_t) override {}  // a block stays with its stream for ever
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override { record_use(memory, stream); }

  /// Returns the bytes allocated, now and at most; nothing else is counted.
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& allocated = stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    const auto [now, most] = count().of(index);
    allocated.current = now;
    allocated.peak = most;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}  // there are none
  void resetPeakStats(c10::DeviceIndex index) override { count().forget_most(index); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const uint64_t capacity = fakedrv_capacity(index);
    return {capacity - fakedrv_allocated(index), capacity};
  }
};

class Pinned final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    void* memory = nullptr;
    check(fakedrv_alloc_pinned(nbytes, &memory));
    return {memory, memory, raw_deleter(), c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) { fakedrv_free_pinned(memory); };
  }
  void copy_data(void* to, const void* from, size_t nbytes) const override { default_copy_data(to, from, nbytes); }
};

const c10::AllocatorRegisterer<kFake> registered(&device_allocator());

}  // namespace

c10::DeviceAllocator& device_allocator() {
  static Devices& allocator = *new Devices;  // outlives all tensors
  return allocator;
}

void initialize_allocator() {
  is_initialized = true;
}

c10::Allocator& pinned_allocator() {
  static Pinned& allocator = *new Pinned;
  return allocator;
}

c10::DataPtr allocate_on(c10::Device device, size_t nbytes) {
  if (nbytes == 0) return {nullptr, device};
  void* memory = nullptr;
  TORCH_CHECK_WITH(OutOfMemoryError, fakedrv_alloc(current_stream(device), nbytes, &memory) == 0, device, " has no ",
                   nbytes, " bytes: ", fakedrv_allocated(device.index()), " of ", fakedrv_capacity(device.index()),
                   " are allocated; FAKE_DEVICE_MIB sets how many MiB there are");
  count().add(memory, device.index(), nbytes);
  return {memory, memory, &give_back, device};
}

c10::Storage make_storage(c10::Device device, size_t nbytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), nbytes, allocate_on(device, nbytes), &device_allocator(), true);
}

void resize_bytes(c10::StorageImpl& storage, size_t nbytes) {
  TORCH_CHECK(storage.resizable(), "this storage of a fake device cannot be resized: its memory is somebody else's");
  const c10::Device device = storage.device();
  c10::DataPtr memory = allocate_on(device, nbytes);
  const size_t kept = std::min(nbytes, storage.nbytes());
  check(fakedrv_copy(current_stream(device), memory.get(), storage.data(), kept));
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(nbytes);
}

void record_use(const c10::DataPtr& memory, const c10::Stream& stream) {
  if (memory.get()) check(fakedrv_used_on(memory.get(), stream_of(stream)));
}

}  // namespace fake_torch
