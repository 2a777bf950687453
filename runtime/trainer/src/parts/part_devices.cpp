#include "parts/part_devices.hpp"

#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "data/device_copy.hpp"
#include "parts/operator_watch.hpp"

namespace cohort {
PartDevices::PartDevices(std::span<const c10::Device> of_parts, std::span<const c10::Device> others)
    : of_parts_(of_parts.begin(), of_parts.end()) {
  if (!are_apart()) return;
  const c10::impl::VirtualGuardImpl guard(of_parts_[0].type());
  const auto made = [&](c10::Device device) { return guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true); };
  for (const auto& devices : {of_parts, others}) {
    for (const c10::Device device : devices) {
      if (!streams_.contains(device.index())) streams_.emplace(device.index(), Streams{made(device), made(device)});
    }
  }
}

at::Tensor PartDevices::moved(const at::Tensor& tensor, c10::Device device) const {
  if (!is_elsewhere(tensor, device)) return tensor;
  const OperatorWatch::Pause pause;
  // Backward of a copy in another stream would not be ordered with sums that autograd makes in place.
  if (tensor.requires_grad() && at::GradMode::is_enabled()) return tensor.to(device);
  const c10::Device from = tensor.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream maker = guard.getStream(from), user = guard.getStream(device);
  const c10::Stream out = streams_.at(from.index()).out, in = streams_.at(device.index()).in;
  order(out, maker);
  at::Tensor copy;
  {
    const c10::StreamGuard source(out), target(in);
    copy = tensor.to(device, /*non_blocking=*/true);
  }
  // Memory belongs to the stream that it was asked for on, which must not use it again before the other one has.
  if (tensor.has_storage()) guard.recordDataPtrOnStream(tensor.storage().data_ptr(), out);
  if (copy.has_storage()) guard.recordDataPtrOnStream(copy.storage().data_ptr(), user);
  order(user, in);
  order(maker, out);
  return copy;
}

void PartDevices::wait(size_t part) const {
  if (!are_apart()) return;
  const c10::Device device = of_parts_[part];
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace cohort
