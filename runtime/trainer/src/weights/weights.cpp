#include <cohort/weights.hpp>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <cohort/host/error.hpp>
#include <cohort/safetensors.hpp>

namespace cohort {
namespace {

NamedTensors named_state(const torch::nn::Module& module) {
  NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace_back(item.key(), item.value());
  return state;
}

std::string shape_text(const at::Tensor& tensor) {
  std::string text = "[";
  for (const int64_t size : tensor.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

void check(const NamedTensors& state, const SafetensorsFile& file, const std::string& path, bool strict) {
  size_t known = 0;
  for (const auto& [name, tensor] : state) {
    const at::Tensor* stored = file.find(name);
    if (!stored && strict) throw UserError(path + " has no tensor '" + name + "', which the model has");
    if (!stored) continue;
    ++known;
    if (stored->sizes() != tensor.sizes()) {
      throw UserError(path + " has '" + name + "' with shape " + shape_text(*stored) + ", the model has " +
                      shape_text(tensor));
    }
  }
  if (!strict || known == file.tensors.size()) return;
  for (const auto& [name, stored] : file.tensors) {
    const auto same_name = [&name = name](const auto& item) { return item.first == name; };
    if (std::none_of(state.begin(), state.end(), same_name)) {
      throw UserError(path + " has a tensor '" + name + "', which the model does not have");
    }
  }
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path) {
  write_safetensors(path, named_state(module));
}

void load_weights(torch::nn::Module& module, const std::filesystem::path& path, bool strict) {
  const at::NoGradGuard no_grad;
  const auto state = named_state(module);
  const auto file = read_safetensors(path);
  check(state, file, path.string(), strict);  // all of it before the first tensor changes
  for (const auto& [name, tensor] : state) {
    if (const at::Tensor* stored = file.find(name)) tensor.copy_(*stored);
  }
}

}  // namespace cohort
