#include "data/device_copy.hpp"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace cohort {
namespace {

bool has_pinned_memory(c10::DeviceType type) {
  try {
    return at::globalContext().getPinnedMemoryAllocator(type) != nullptr;
  } catch (const c10::Error&) {  // a device type that a library has added need not have any
    return false;
  }
}

}  // namespace

Batch pinned(const Batch& batch, c10::Device device) {
  if (device.is_cpu() || !has_pinned_memory(device.type())) return batch;
  const c10::DeviceGuard on(device);  // a thread that has not chosen a device would begin to use device 0
  return batch.map_tensors([](const at::Tensor& tensor) {
    const bool can_be = tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_pinned();
    return can_be ? tensor.pin_memory() : tensor;
  });
}

void order(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event end(earlier.device_type());
  end.record(earlier);
  end.block(later);
}

c10::Stream make_copy_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false);
}

Batch copied_on(c10::Stream copies, const Batch& batch) {
  const c10::Device device = copies.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream user = guard.getStream(device);
  Batch copied = batch.map_tensors([&](const at::Tensor& tensor) {
    if (!tensor.is_cpu()) return tensor.to(device);
    const c10::StreamGuard on(copies);
    at::Tensor copy = tensor.to(device, /*non_blocking=*/true);
    // The memory belongs to the copies' stream, which must not use it again before this one has.
    if (copy.has_storage()) guard.recordDataPtrOnStream(copy.storage().data_ptr(), user);
    return copy;
  });
  order(user, copies);
  return copied;
}

}  // namespace cohort
