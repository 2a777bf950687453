// For one operator: tensors of the CPU over the bytes of a device's tensors, and the way back.
//
// Tensors that share a storage have aliases that share one, and a tensor that is given twice has one alias; so the
// CPU's kernel sees what overlaps, and its results tell by their storage which of them are views. The addresses are
// those that the driver lets work use; nothing may touch them but work in the order of a stream.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "device.hpp"

namespace fake_torch {

class Aliases {
 public:
  /// The memory under aliases: the bytes of the device's tensors, or zeros of the host, from which a call that shall
  /// change nothing yet tells the sizes of its results.
  enum class Bytes { kDevice, kZeros };
  explicit Aliases(Bytes bytes = Bytes::kDevice) : bytes_(bytes) {}

  /// Returns the alias of a device's tensor.
  at::Tensor of(const at::Tensor& tensor);
  /// Gives the device's tensors the sizes and the larger storages that the call has given to their aliases.
  void take_back(fakedrv_stream* stream, const char* name);
  /// Returns whether a device's storage has an alias.
  bool know(const c10::Storage& device) const;
  /// Returns a result as the device's: an argument itself, a view of one, or new memory that holds it; over zeros, that
  /// has room for it.
  at::Tensor result(const at::Tensor& made, c10::Device device, fakedrv_stream* stream, const char* name);

 private:
  struct Pair {
    at::Tensor device, alias;
  };
  struct StoragePair {
    c10::Storage device, alias;
    const void* bytes;  // of the alias before the call
  };
  Bytes bytes_;
  std::vector<Pair> tensors_;
  std::vector<StoragePair> storages_;

  c10::Storage storage_of(const c10::Storage& device);
  c10::Storage moved(const at::Tensor& made, c10::Device device, fakedrv_stream* stream, const char* name);
};

/// Returns the CPU's tensor over the bytes of a device's, for one that needs no way back.
inline at::Tensor alias_of(const at::Tensor& tensor) {
  return Aliases().of(tensor);
}

/// Adds the bytes from a tensor's first element to its last one.
void add_access(std::vector<fakedrv_access>& accesses, const at::Tensor& tensor, bool is_write);

}  // namespace fake_torch
