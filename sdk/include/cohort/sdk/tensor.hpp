// Tensors of the host as typed ranges of elements. A view borrows the cohort_tensor's memory.
#pragma once

#include <string>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

class TensorView {
 public:
  TensorView() = default;
  explicit TensorView(const cohort_tensor& tensor) : tensor_(tensor) {}

  const cohort_tensor& raw() const { return tensor_; }
  const char* name() const { return tensor_.name ? tensor_.name : ""; }
  std::int32_t dtype() const { return tensor_.dtype; }
  std::uint64_t nbytes() const { return tensor_.nbytes; }
  std::uint64_t numel() const { return size_of(tensor_.dtype) ? tensor_.nbytes / size_of(tensor_.dtype) : 0; }
  bool is_on_cpu() const { return tensor_.device_type == COHORT_DEVICE_CPU; }
  bool is_dense() const { return (tensor_.flags & COHORT_TENSOR_DENSE) != 0; }
  bool requires_grad() const { return (tensor_.flags & COHORT_TENSOR_REQUIRES_GRAD) != 0; }
  bool is_read_only() const { return (tensor_.flags & COHORT_TENSOR_READ_ONLY) != 0; }

  /// Returns the address of the first element, in memory of the tensor's device.
  void* data() const { return tensor_.data; }

  /// Returns the elements of a dense CPU tensor in memory order. Throws INVALID_ARGUMENT if the tensor is not dense,
  /// not on the CPU, not of type `T`, or is read-only and `T` is not const.
  template <class T>
  Span<T> span() const {
    using Element = std::remove_const_t<T>;
    static_assert(kDtypeOf<Element> != 0, "T is not the element type of a cohort data type");
    require(is_on_cpu(), "is not in CPU memory");
    require(is_dense(), "has gaps in memory");
    require(std::is_const<T>::value || !is_read_only(), "is read-only");
    require(dtype() == kDtypeOf<Element>,
            std::string("has elements of type ") + name_of(dtype()) + ", not " + name_of(kDtypeOf<Element>));
    return {static_cast<T*>(data()), static_cast<std::size_t>(numel())};
  }

 private:
  void require(bool condition, const std::string& problem) const {
    if (!condition) throw invalid_argument(std::string("tensor '") + name() + "' " + problem);
  }

  cohort_tensor tensor_{};
};

}  // namespace v1
}  // namespace cohort::sdk
