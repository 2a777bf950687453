// Memory of tensors: of the devices, and pinned.
#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "device.hpp"

namespace fake_torch {

/// Returns the allocator of the devices, which takes the current one. As CUDA's, it refuses before LibTorch has
/// initialized the device type, which it does for tensors.
c10::DeviceAllocator& device_allocator();
void initialize_allocator();
c10::Allocator& pinned_allocator();

/// Returns memory that belongs to the device's current stream.
c10::DataPtr allocate_on(c10::Device device, size_t nbytes);
c10::Storage make_storage(c10::Device device, size_t nbytes);
/// Gives a storage memory of this many bytes; those that it has are copied in the order of the current stream.
void resize_bytes(c10::StorageImpl& storage, size_t nbytes);
/// Notes that a stream uses memory that belongs to another one.
void record_use(const c10::DataPtr& memory, const c10::Stream& stream);

}  // namespace fake_torch
