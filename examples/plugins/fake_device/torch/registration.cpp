// Makes `fake` a device of LibTorch: its name, its kernels, and the fallback for all other operators.
#include <torch/library.h>

#include <c10/core/DeviceType.h>

#include "fallback.hpp"
#include "kernels.hpp"
#include "overrides.hpp"

namespace fake_torch {
namespace {

const bool is_named = [] {
  c10::register_privateuse1_backend("fake");
  return true;
}();

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_cpu(op, stack);
}

template <void (*kFunction)(const c10::OperatorHandle&, torch::jit::Stack*)>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<kFunction>();
}

// The fallback is not asked where there is a composite kernel, whose formula may give other bits than the CPU's.
constexpr const char* kHiddenByComposites[] = {
    "_stack",
    "_stack.out",
    "native_layer_norm",
    "native_group_norm",
    "native_channel_shuffle",
    "silu_backward",
    "mish_backward",
    "addr",
    "addr.out",
    "all.dims",
    "all.dims_out",
    "any.dims",
    "any.dims_out",
    "linalg__powsum",
};

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(boxed<fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("set_", TORCH_FN(set_to_nothing));
  m.impl("set_.source_Tensor", TORCH_FN(set_to_tensor));
  m.impl("set_.source_Storage", TORCH_FN(set_to_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_to_part));
  m.impl("view", TORCH_FN(view));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("record_stream", TORCH_FN(record_stream));

  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  m.impl("convolution_overrideable", boxed<convolution>());
  m.impl("convolution_backward_overrideable", boxed<convolution_backward>());
  m.impl("dropout", TORCH_FN(dropout));
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  for (const char* const name : kHiddenByComposites) m.impl(name, boxed<fallback>());
}

// Composite kernels: autograd sees the operators that they are made of.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("dropout", TORCH_FN(dropout));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
}

// To make a conjugate or negative tensor real is a copy itself, and would ask for a copy without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace fake_torch
