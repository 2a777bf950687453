// The devices of the parts of a model: its weights there, and tensors on their way from one to another.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <torch/nn/module.h>

#include "parts/operator_watch.hpp"

namespace cohort {

/// Any thread. CPU devices share their memory: nothing moves.
class PartDevices {
 public:
  /// `of_parts`: the device of each part; all of one type. `others`: from which tensors may come.
  explicit PartDevices(std::span<const c10::Device> of_parts, std::span<const c10::Device> others = {});

  size_t count() const { return of_parts_.size(); }
  c10::Device operator[](size_t part) const { return of_parts_[part]; }
  /// Returns whether parts have memory of their own.
  bool are_apart() const { return !of_parts_[0].is_cpu(); }
  /// Returns whether an operator on the device needs a copy of the tensor. CPU tensors stay: numbers, and user errors.
  static bool is_elsewhere(const at::Tensor& tensor, c10::Device device) {
    return !tensor.is_cpu() && tensor.device() != device;
  }
  /// Returns the tensor on the device. Autograd records it. What it does not record is copied in streams of its own,
  /// beside what the target does; the source's stream waits for the copy, because it may write to the tensor next.
  at::Tensor moved(const at::Tensor& tensor, c10::Device device) const;
  /// Puts copies on the device in the place of an operator's arguments, but for those that stay in place.
  void bring(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Device device) const;
  /// Blocks until the part's device has done all its work.
  void wait(size_t part) const;

 private:
  struct Streams {
    c10::Stream out, in;
  };
  std::vector<c10::Device> of_parts_;
  std::map<c10::DeviceIndex, Streams> streams_;
};

/// The states of the default generators of devices, given back when this ends.
class KeptGenerators {
 public:
  explicit KeptGenerators(std::span<const c10::Device> devices);
  ~KeptGenerators();
  KeptGenerators(const KeptGenerators&) = delete;
  KeptGenerators& operator=(const KeptGenerators&) = delete;

 private:
  std::map<c10::DeviceIndex, std::pair<c10::Device, at::Tensor>> states_;
};

/// Returns the state of the device's default generator, and back.
at::Tensor chance_on(c10::Device device);
void set_chance(c10::Device device, const at::Tensor& state);
void seed_chance(c10::Device device, uint64_t seed);

/// Returns whether the operator updates running statistics, which its schema does not say.
bool updates_statistics(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Returns whether the operator writes to an argument, or gives a view of it, so that no copy can stand for it.
bool stays_in_place(const c10::OperatorHandle& op, size_t argument, bool has_statistics);
/// Returns the device of the first argument that stays in place; nothing if all of those are on the CPU.
std::optional<c10::Device> device_in_place(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Returns the device that the arguments ask for the result.
std::optional<c10::Device> asked_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Returns whether the operator says itself on which device its result is.
bool chooses_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// While it lives, the operators of a backward that this thread runs get their arguments on the device of their node:
/// functions and hooks of users may have kept tensors of others.
class NearNodes final : public OperatorWatcher {
 public:
  explicit NearNodes(const PartDevices& devices);

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override;

 private:
  const PartDevices& devices_;
  std::optional<OperatorWatch> watch_;
};

/// While it lives, the operators of this thread run on the device of the weights that they read, or else on that of
/// their first argument, and random numbers are drawn as on one device.
class NearWeights final : public OperatorWatcher {
 public:
  NearWeights(const torch::nn::Module& module, const PartDevices& devices);
  ~NearWeights() override;
  NearWeights(const NearWeights&) = delete;
  NearWeights& operator=(const NearWeights&) = delete;

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override;

 private:
  const PartDevices& devices_;
  std::unordered_set<const at::TensorImpl*> weights_;
  c10::Device last_;
  std::optional<OperatorWatch> watch_;

  c10::Device device_for(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first) const;
};

}  // namespace cohort
