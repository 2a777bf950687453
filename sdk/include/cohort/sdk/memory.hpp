// Memory on a device, owned by a plugin: cohort/api/host/memory.h as an object.
//
//   buffer_ = host().alloc(bucket.device_type, bucket.device_index, nbytes);   // in layout_ready
//
// The calling thread's stream orders allocation and release. Threads: any, one at a time.
#pragma once

#include <cstdint>
#include <utility>

#include <cohort/api/host/memory.h>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

class DeviceBuffer {
 public:
  /// Holds no memory.
  DeviceBuffer() = default;
  DeviceBuffer(const cohort_host* host, const cohort_memory_1& table, int32_t device_type, int32_t device_index,
               uint64_t nbytes)
      : host_(host), table_(&table), nbytes_(nbytes) {
    check(table_->alloc(host_, device_type, device_index, nbytes, &data_));
  }
  ~DeviceBuffer() { release(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }

  void* data() const { return data_; }
  uint64_t nbytes() const { return nbytes_; }
  /// Returns the address `offset` bytes after data().
  void* at(uint64_t offset) const { return static_cast<unsigned char*>(data_) + offset; }

 private:
  const cohort_host* host_ = nullptr;
  const cohort_memory_1* table_ = nullptr;
  void* data_ = nullptr;
  uint64_t nbytes_ = 0;

  void release() noexcept {
    if (data_) table_->release(host_, data_);
    data_ = nullptr;
  }
  void swap(DeviceBuffer& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(table_, other.table_);
    std::swap(data_, other.data_);
    std::swap(nbytes_, other.nbytes_);
  }
};

}  // namespace v1
}  // namespace cohort::sdk
