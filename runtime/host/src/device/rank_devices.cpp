#include <cstdlib>
#include <cstring>
#include <new>

#include <algorithm>

#include <cohort/host/device_port.hpp>
#include <cohort/host/error.hpp>

namespace cohort::host {

bool RankDevices::has(Device device) const {
  return device.is_cpu() || std::ranges::find(all(), device) != all().end();
}

cohort_stream RankDevices::current(Device device) const {
  if (device.is_cpu()) return {nullptr, COHORT_DEVICE_CPU, device.index};
  if (has(device)) return port_->current(device);
  throw UserError("this rank works on no device " + std::to_string(device.index) + " of type " +
                  std::to_string(device.type));
}

void* RankDevices::alloc(Device device, uint64_t nbytes) const {
  constexpr size_t kAlignment = 256;
  if (!device.is_cpu()) return port_->alloc(nbytes, current(device));
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, std::max<uint64_t>(nbytes, 1)) != 0) throw std::bad_alloc();
  return memory;
}

void RankDevices::release(Device device, void* memory) const {
  if (device.is_cpu()) return std::free(memory);
  port_->release(memory, current(device));
}

void RankDevices::release_or_leave(Device device, void* memory) const noexcept {
  try {
    release(device, memory);
  } catch (const std::exception&) {
    // The next use of the device reports its failure.
  }
}

void RankDevices::wait_if_possible() const noexcept {
  try {
    for (const Device device : all()) port_->wait(device);
  } catch (const std::exception&) {
    // The next use of the device reports its failure.
  }
}

void RankDevices::fill_with_zeros(Device device, void* memory, uint64_t nbytes) const {
  if (nbytes == 0) return;
  if (device.is_cpu()) {
    std::memset(memory, 0, nbytes);
  } else {
    port_->fill_with_zeros(memory, nbytes, current(device));
  }
}

void RankDevices::copy_from_host(Device device, void* to, const void* from, uint64_t nbytes) const {
  if (nbytes == 0) return;
  if (device.is_cpu()) {
    std::memcpy(to, from, nbytes);
  } else {
    port_->copy_from_host(to, from, nbytes, current(device));
  }
}

void RankDevices::copy_to_host(Device device, void* to, const void* from, uint64_t nbytes) const {
  if (nbytes == 0) return;
  if (device.is_cpu()) {
    std::memcpy(to, from, nbytes);
  } else {
    port_->copy_to_host(to, from, nbytes, current(device));
  }
}

}  // namespace cohort::host
