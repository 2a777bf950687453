// Kernels that the backend has of its own: memory, sizes, views, copies.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/Scalar.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace fake_torch {

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format);
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory);
const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format);

at::Tensor& set_to_nothing(at::Tensor& self);
at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& source);
at::Tensor& set_to_storage(at::Tensor& self, c10::Storage source);
at::Tensor& set_to_part(at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride);

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size);
at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                      std::optional<int64_t> offset);
at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride);

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to);
/// Returns the only number of a tensor, after all work of its current stream.
at::Scalar local_scalar_dense(const at::Tensor& self);
void record_stream(at::Tensor& self, c10::Stream stream);

}  // namespace fake_torch
