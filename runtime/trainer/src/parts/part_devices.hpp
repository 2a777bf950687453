// The devices of the parts of a model, and the copies of tensors between them.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace cohort {

/// Any thread. Nothing moves between CPU devices, because they share their memory.
class PartDevices {
 public:
  /// `of_parts`: the device of each part; all are of one type. `others`: more devices that tensors may come from.
  explicit PartDevices(std::span<const c10::Device> of_parts, std::span<const c10::Device> others = {});

  size_t count() const { return of_parts_.size(); }
  c10::Device operator[](size_t part) const { return of_parts_[part]; }
  /// Returns whether parts have memory of their own.
  bool are_apart() const { return !of_parts_[0].is_cpu(); }
  /// Returns whether an operator on the device needs a copy of the tensor. A CPU tensor stays where it is, because
  /// LibTorch takes one of a single element as a number, and refuses any other one.
  static bool is_elsewhere(const at::Tensor& tensor, c10::Device device) {
    return !tensor.is_cpu() && tensor.device() != device;
  }
  /// Returns the tensor on the device. Autograd records the copy if the tensor requires a gradient; other copies run in
  /// streams of their own beside the target's work. The source's stream waits for the copy, because an operator that is
  /// enqueued there next may write to the tensor.
  at::Tensor moved(const at::Tensor& tensor, c10::Device device) const;
  /// Blocks until the part's device has done all its work.
  void wait(size_t part) const;

 private:
  struct Streams {
    c10::Stream out, in;
  };
  std::vector<c10::Device> of_parts_;
  std::map<c10::DeviceIndex, Streams> streams_;
};

}  // namespace cohort
