#include "parts/placement.hpp"

#include <algorithm>
#include <unordered_set>

namespace cohort {
namespace {

void move_to(const at::Tensor& tensor, c10::Device device) {
  if (tensor.device() != device) tensor.set_data(tensor.detach().to(device));
}

}  // namespace

void spread(torch::nn::Module& module, std::span<const c10::Device> devices) {
  const std::vector<Unit> units = units_of(module);
  const auto bytes_of = [](const Unit& unit) {
    uint64_t bytes = 0;
    for (const at::Tensor& tensor : unit.tensors) bytes += tensor.nbytes();
    return bytes;
  };
  uint64_t all = 0, before = 0;
  for (const Unit& unit : units) all += bytes_of(unit);
  std::vector<size_t> parts;
  for (const Unit& unit : units) {
    const uint64_t bytes = bytes_of(unit);
    const uint64_t middle = before + bytes / 2;
    parts.push_back(all == 0 ? 0 : std::min<size_t>(middle * devices.size() / all, devices.size() - 1));
    before += bytes;
  }
  move_units(module, parts, PartDevices(devices));
}

// Buffers of modules without parameters that nobody writes are on the first device.
void move_units(torch::nn::Module& module, const std::vector<size_t>& parts, const PartDevices& devices,
                const std::vector<WrittenBuffer>& written) {
  std::unordered_set<const at::TensorImpl*> moved;
  const std::vector<Unit> units = units_of(module);
  for (size_t number = 0; number < units.size(); ++number) {
    for (const at::Tensor& tensor : units[number].tensors) {
      move_to(tensor, devices[parts[number]]);
      moved.insert(tensor.unsafeGetTensorImpl());
    }
  }
  const std::vector<at::Tensor> buffers = module.buffers();
  for (const WrittenBuffer& one : written) {
    move_to(buffers[one.buffer], devices[one.part]);
    moved.insert(buffers[one.buffer].unsafeGetTensorImpl());
  }
  for (const at::Tensor& buffer : buffers) {
    if (buffer.defined() && !moved.contains(buffer.unsafeGetTensorImpl())) move_to(buffer, devices[0]);
  }
}

}  // namespace cohort
