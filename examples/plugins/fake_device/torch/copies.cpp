// Copies between tensors of any devices, sizes that broadcast, types and strides.
//
// On one device a copy is an operator like any other. Between places the bytes are copied by the driver, so both sides
// have to have the same type and order; a temporary tensor serves where they have not. As with CUDA, a copy runs on the
// device's current stream, one between two devices on the source's, with the destination's ordered before and behind
// it; a blocking copy to or from the host waits, and pinned memory lives until its copies are done.
#include <array>
#include <cstring>
#include <memory>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include "aliases.hpp"
#include "allocator.hpp"
#include "fallback.hpp"
#include "kernels.hpp"

namespace fake_torch {
namespace {

bool is_fake(const at::Tensor& tensor) {
  return tensor.device().type() == kFake;
}

// True if equal bytes at equal places make the two equal.
bool have_same_bytes(const at::Tensor& one, const at::Tensor& other) {
  return one.dtype() == other.dtype() && one.sizes() == other.sizes() && one.strides() == other.strides() &&
         one.is_non_overlapping_and_dense() && one.is_conj() == other.is_conj() && one.is_neg() == other.is_neg();
}

void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  torch::jit::Stack stack{to, from, false};
  run_on_cpu_as("aten::copy_", "", &stack);
}

// Orders what the stream does next behind what the other one has been given.
void order(fakedrv_stream* stream, fakedrv_stream* other) {
  fakedrv_event* event = nullptr;
  check(fakedrv_create_event(&event));
  const std::unique_ptr<fakedrv_event, void (*)(fakedrv_event*)> owned(event, fakedrv_destroy_event);
  check(fakedrv_record(event, other));
  check(fakedrv_stream_waits(stream, event));
}

// Copies to or from pinned memory, which the work keeps.
void copy_pinned(fakedrv_stream* stream, const at::Tensor& from, const at::Tensor& to) {
  struct Copy {
    void* to;
    const void* from;
    size_t nbytes;
    c10::Storage pinned;
  };
  const auto run = [](void* arg) {
    const auto& copy = *static_cast<Copy*>(arg);
    std::memcpy(copy.to, copy.from, copy.nbytes);
    return 0;
  };
  const auto drop = [](void* arg) { delete static_cast<Copy*>(arg); };
  const std::array<fakedrv_access, 2> accesses{
      {{from.const_data_ptr(), from.nbytes(), 0, 0}, {to.mutable_data_ptr(), to.nbytes(), 1, 0}}};
  auto* const copy = new Copy{fakedrv_contents(to.mutable_data_ptr()), fakedrv_contents(from.const_data_ptr()),
                              to.nbytes(), is_fake(from) ? to.storage() : from.storage()};
  check(fakedrv_launch(stream, "copy", accesses.data(), accesses.size(), run, copy, drop));
}

// Copies between the host and a device where both have the same bytes.
void copy_bytes(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  fakedrv_stream* const stream = current_stream(is_fake(from) ? from.device() : to.device());
  const at::Tensor& host = is_fake(from) ? to : from;
  const bool is_pinned = fakedrv_is_pinned(host.const_data_ptr());
  if (!is_pinned || !non_blocking) refuse_in_capture(stream, "aten::_copy_from between a device and the host");
  if (is_pinned) {
    copy_pinned(stream, from, to);
  } else {
    check(fakedrv_copy(stream, to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes()));
  }
  if (!non_blocking) check(fakedrv_wait(stream));
}

void copy_between_devices(const at::Tensor& from, const at::Tensor& to) {
  fakedrv_stream* const stream = current_stream(from.device());
  fakedrv_stream* const other = current_stream(to.device());
  order(stream, other);
  check(fakedrv_copy(stream, to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes()));
  order(other, stream);
}

// Returns the tensor if it has the bytes that `to` needs, or a new one that has, on the same device.
at::Tensor like(const at::Tensor& to, const at::Tensor& from) {
  if (have_same_bytes(from, to)) return from;
  at::Tensor made = to.is_non_overlapping_and_dense()
                        ? at::empty_strided(to.sizes(), to.strides(), from.options().dtype(to.dtype()))
                        : at::empty_like(to, from.options().dtype(to.dtype()), at::MemoryFormat::Contiguous);
  return made.copy_(from);
}

// The two sides lie in different places.
void copy_across(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!to.is_non_overlapping_and_dense() || to.is_conj() || to.is_neg()) {
    const at::Tensor dense = at::empty_like(to, to.options(), at::MemoryFormat::Contiguous);
    copy_across(from, dense, is_fake(to) && non_blocking);
    to.copy_(dense);
    return;
  }
  const at::Tensor source = like(to, from);
  if (is_fake(source) && is_fake(to)) {
    copy_between_devices(source, to);
  } else {
    copy_bytes(source, to, non_blocking);
  }
}

}  // namespace

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor from = self.expand_as(to);
  if (to.numel() == 0) return to;
  const c10::OptionalDeviceGuard on(is_fake(to) ? to.device() : from.device());
  if (from.device() == to.device()) {
    copy_on_device(from, to);
  } else {
    copy_across(from, to, non_blocking);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  fakedrv_stream* const stream = current_stream(self.device());
  refuse_in_capture(stream, "aten::_local_scalar_dense");
  check(fakedrv_wait(stream));
  return at::_local_scalar_dense(alias_of(self));
}

}  // namespace fake_torch
