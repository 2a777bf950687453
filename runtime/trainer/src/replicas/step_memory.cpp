#include "replicas/step_memory.hpp"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <c10/core/GradMode.h>

#include "parts/device_generators.hpp"

namespace cohort {
namespace {

/// Returns whether elements share memory, as those of expand() do, to which no operator writes.
bool overlaps_itself(const at::Tensor& tensor) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) > 1 && tensor.stride(dim) == 0) return true;
  }
  return false;
}

bool have_same_shapes(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& one, const at::Tensor& other) {
    return one.sizes() == other.sizes() && one.device() == other.device() && one.dtype() == other.dtype();
  });
}

}  // namespace

// The copies stay, as allocating them in each step would cost more than filling them.
void StepMemory::keep(std::span<Module* const> modules, std::span<const c10::Device> devices) {
  const at::NoGradGuard no_grad;
  modules_.assign(modules.begin(), modules.end());
  buffers_.clear();
  places_.clear();
  modes_.clear();
  for (const Module* const module : modules) {
    for (const at::Tensor& buffer : module->buffers()) {
      if (!buffer.defined() || overlaps_itself(buffer)) continue;
      buffers_.push_back(buffer);
      places_.push_back(buffer.detach());
    }
    modes_.push_back(detail::training_modes(*module));
  }
  if (have_same_shapes(places_, copies_)) {
    if (!places_.empty()) at::_foreach_copy_(copies_, places_);
  } else {
    copies_.clear();
    for (const at::Tensor& place : places_) copies_.push_back(place.clone());
  }
  generators_.clear();
  generators_.emplace_back(c10::kCPU, generator_state_of(c10::kCPU));
  for (const c10::Device device : devices) {
    if (!device.is_cpu()) generators_.emplace_back(device, generator_state_of(device));
  }
  metrics_.clear();
  versions_ = versions();
}

bool StepMemory::restore() {
  if (versions() != versions_) return false;
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].is_alias_of(places_[i]) || buffers_[i].sizes() != places_[i].sizes()) {
      buffers_[i].set_data(places_[i]);
    }
    places_[i].copy_(copies_[i]);
  }
  for (size_t i = 0; i < modules_.size(); ++i) detail::set_training_modes(*modules_[i], modes_[i]);
  for (const auto& [device, state] : generators_) set_generator_state_of(device, state);
  metrics_.restore();
  return true;
}

uint64_t StepMemory::versions() const {
  uint64_t sum = 0;
  for (const Module* const module : modules_) {
    for (const at::Tensor& parameter : module->parameters()) sum += static_cast<uint64_t>(parameter._version());
  }
  return sum;
}

}  // namespace cohort
