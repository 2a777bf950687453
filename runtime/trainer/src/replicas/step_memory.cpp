#include "replicas/step_memory.hpp"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <c10/core/GradMode.h>

#include "parts/device_generators.hpp"

namespace cohort {
namespace {

bool have_same_shapes(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& one, const at::Tensor& other) {
    return one.sizes() == other.sizes() && one.device() == other.device() && one.dtype() == other.dtype();
  });
}

}  // namespace

// The copies stay, as allocating them in each step would cost more than filling them.
void StepMemory::keep(std::span<Module* const> modules, std::span<const c10::Device> devices, MetricBoard* board) {
  const at::NoGradGuard no_grad;
  buffers_.clear();
  for (const Module* const module : modules) {
    for (const at::Tensor& buffer : module->buffers()) {
      if (buffer.defined()) buffers_.push_back(buffer.detach());
    }
  }
  if (have_same_shapes(buffers_, copies_)) {
    if (!buffers_.empty()) at::_foreach_copy_(copies_, buffers_);
  } else {
    copies_.clear();
    for (const at::Tensor& buffer : buffers_) copies_.push_back(buffer.clone());
  }
  generators_.clear();
  generators_.emplace_back(c10::kCPU, generator_state_of(c10::kCPU));
  for (const c10::Device device : devices) {
    if (!device.is_cpu()) generators_.emplace_back(device, generator_state_of(device));
  }
  restore_metrics_ = board ? board->metrics().way_back() : std::function<void()>();
}

void StepMemory::restore() const {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) at::Tensor(buffers_[i]).copy_(copies_[i]);
  for (const auto& [device, state] : generators_) set_generator_state_of(device, state);
  if (restore_metrics_) restore_metrics_();
}

}  // namespace cohort
