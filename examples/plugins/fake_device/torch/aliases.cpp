// Aliases of a device's tensors for one call. Nothing but `write` touches bytes here, and that in the order of the
// stream; a storage whose memory the CPU's kernel has exchanged for larger one is known by its address.
#include "aliases.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include "allocator.hpp"

namespace fake_torch {
namespace {

// Returns a tensor like `shape` over another storage.
at::Tensor tensor_over(c10::Storage storage, c10::DispatchKey backend, const at::Tensor& shape) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(backend), shape.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes(), shape.strides(), shape.storage_offset());
  if (shape.is_conj()) made._set_conj(true);
  if (shape.is_neg()) made._set_neg(true);
  if (shape.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

// Writes bytes of the host into new memory, in the order of the stream.
void write(fakedrv_stream* stream, const char* name, void* to, const void* from, size_t nbytes) {
  if (nbytes == 0) return;
  struct Copy {
    void* to;
    const void* from;
    size_t nbytes;
  } copy{fakedrv_contents(to), from, nbytes};
  const auto run = [](void* arg) {
    const auto& [target, source, count] = *static_cast<Copy*>(arg);
    if (source) {
      std::memcpy(target, source, count);
    } else {
      std::memset(target, 0, count);  // a tensor of zeros that has no memory
    }
    return 0;
  };
  const fakedrv_access writes{to, nbytes, 1, 0};
  check(fakedrv_call(stream, name, &writes, 1, run, &copy));
}

c10::DataPtr zeros(size_t nbytes) {
  void* const memory = std::calloc(std::max<size_t>(nbytes, 1), 1);
  if (!memory) throw std::bad_alloc();
  return {memory, memory, &std::free, c10::Device(c10::DeviceType::CPU)};
}

c10::DataPtr bytes_of(const c10::Storage& device) {
  const auto nothing = [](void*) {};
  void* const bytes = fakedrv_contents(device.data());
  return {bytes, bytes, nothing, c10::Device(c10::DeviceType::CPU)};
}

bool has_same_place(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.strides() == other.strides() &&
         one.storage_offset() == other.storage_offset();
}

}  // namespace

c10::Storage Aliases::storage_of(const c10::Storage& device) {
  for (const auto& [known, alias, bytes] : storages_) {
    if (known.is_alias_of(device)) return alias;
  }
  c10::DataPtr memory = bytes_ == Bytes::kZeros ? zeros(device.nbytes()) : bytes_of(device);
  const void* const bytes = memory.get();
  c10::Storage alias(c10::Storage::use_byte_size_t(), device.nbytes(), std::move(memory), c10::GetCPUAllocator(),
                     device.resizable());
  storages_.push_back({device, alias, bytes});
  return alias;
}

bool Aliases::know(const c10::Storage& device) const {
  return std::any_of(storages_.begin(), storages_.end(),
                     [&](const StoragePair& pair) { return pair.device.is_alias_of(device); });
}

at::Tensor Aliases::of(const at::Tensor& tensor) {
  for (const auto& [device, alias] : tensors_) {
    if (device.is_same(tensor)) return alias;
  }
  at::Tensor alias = tensor_over(storage_of(tensor.storage()), c10::DispatchKey::CPU, tensor);
  tensors_.push_back({tensor, alias});
  return alias;
}

void Aliases::take_back(fakedrv_stream* stream, const char* name) {
  for (const auto& [device, alias, bytes] : storages_) {
    if (alias.data() == bytes) continue;
    resize_bytes(*device.unsafeGetStorageImpl(), alias.nbytes());
    if (bytes_ == Bytes::kDevice) write(stream, name, device.mutable_data(), alias.data(), alias.nbytes());
  }
  for (const auto& [device, alias] : tensors_) {
    if (has_same_place(device, alias)) continue;
    device.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  }
}

c10::Storage Aliases::moved(const at::Tensor& made, c10::Device device, fakedrv_stream* stream, const char* name) {
  for (const auto& [known, alias, bytes] : storages_) {
    if (alias.is_alias_of(made.storage())) return known;
  }
  const size_t nbytes = made.storage().nbytes();
  c10::Storage storage = make_storage(device, nbytes);
  if (bytes_ == Bytes::kDevice) write(stream, name, storage.mutable_data(), made.storage().data(), nbytes);
  storages_.push_back({storage, made.storage(), made.storage().data()});  // results may share memory with each other
  return storage;
}

at::Tensor Aliases::result(const at::Tensor& made, c10::Device device, fakedrv_stream* stream, const char* name) {
  if (!made.defined()) return made;
  for (const auto& [original, alias] : tensors_) {
    if (alias.is_same(made)) return original;
  }
  TORCH_CHECK(made.layout() == c10::kStrided, name, ": a fake device has dense tensors alone, and this would be ",
              made.layout());
  return tensor_over(moved(made, device, stream, name), c10::DispatchKey::PrivateUse1, made);
}

void add_access(std::vector<fakedrv_access>& accesses, const at::Tensor& tensor, bool is_write) {
  if (tensor.numel() == 0) return;
  const size_t nbytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  accesses.push_back({tensor.const_data_ptr(), nbytes, is_write ? 1u : 0u, 0});
}

}  // namespace fake_torch
