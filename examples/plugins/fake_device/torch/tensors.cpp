// Tensors that are made, resized, set and viewed: nothing here reads or writes their bytes.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/DeviceGuard.h>

#include "allocator.hpp"
#include "kernels.hpp"

namespace fake_torch {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Returns the device for a new tensor, of an initialized type. Throws for options that a device's tensors do not have.
c10::Device device_for(std::optional<at::Layout> layout, std::optional<at::Device> device,
                       std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "a fake device has dense tensors alone, not ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "only memory of the CPU can be pinned");
  at::globalContext().lazyInitDevice(kFake);
  return whole(device.value_or(c10::Device(kFake)));
}

c10::ScalarType type_or_default(std::optional<at::ScalarType> dtype) {
  return dtype.value_or(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

// Makes the storage large enough for the tensor's sizes.
void reserve(const at::Tensor& self) {
  if (self.numel() == 0) return;
  const auto offset = static_cast<size_t>(self.storage_offset());
  const size_t nbytes = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(), offset);
  c10::StorageImpl& storage = *self.storage().unsafeGetStorageImpl();
  if (nbytes > storage.nbytes()) resize_bytes(storage, nbytes);
}

}  // namespace

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard on(device_for(layout, device, pin_memory));
  return at::detail::empty_generic(size, &device_allocator(), kKeys, type_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  const c10::DeviceGuard on(device_for(layout, device, pin_memory));
  return at::detail::empty_strided_generic(size, stride, &device_allocator(), kKeys, type_or_default(dtype));
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) impl->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  reserve(self);
  return self;
}

at::Tensor& set_to_part(at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data()) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  reserve(self);
  return self;
}

at::Tensor& set_to_storage(at::Tensor& self, c10::Storage source) {
  const auto size = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_to_part(self, std::move(source), 0, size, {});
}

at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_to_part(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  return set_to_part(self, make_storage(self.device(), 0), 0, 0, {});
}

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) {
  return at::native::view(self, size);
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  record_use(self.storage().data_ptr(), stream);
}

}  // namespace fake_torch
