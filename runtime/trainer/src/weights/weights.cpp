#include <cohort/weights.hpp>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <string_view>
#include <unordered_set>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/safetensors.hpp>

#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

NamesApart names_apart(const NamedTensors& state, const SafetensorsFile& file) {
  NamesApart apart;
  std::unordered_set<std::string_view> known;
  for (const auto& [name, tensor] : state) {
    known.insert(name);
    if (!file.find(name)) apart.missing.push_back(name);
  }
  for (const auto& [name, stored] : file.tensors) {
    if (!known.contains(name)) apart.unexpected.push_back(name);
  }
  for (const auto& [name, why] : file.unreadable) apart.unexpected.push_back(name);
  return apart;
}

bool is_in_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path.parent_path() / "manifest.json", ignored);
}

/// Returns how to save the model if the names of the file are those of the model behind a prefix; else "".
std::string way_without_prefix(const NamesApart& apart) {
  const std::string& name = apart.missing.front();
  for (const std::string& other : apart.unexpected) {
    if (!other.ends_with("." + name)) continue;
    const std::string prefix = other.substr(0, other.size() - name.size());
    const std::string_view wrapper = prefix == "module." ? ", as DistributedDataParallel and DataParallel name them"
                                     : prefix == "_orig_mod." ? ", as torch.compile names them"
                                                              : "";
    return ", but has " + host::in_quotes(other) + std::string(wrapper) + "; save the state_dict of model." +
           host::on_one_line(prefix.substr(0, prefix.size() - 1)) + " in Python, or take " + host::in_quotes(prefix) +
           " from the names there";
  }
  return "";
}

/// Returns which part of the model to load if the names of the model are those of the file behind a prefix; else "".
std::string way_of_part(const NamesApart& apart) {
  if (apart.unexpected.empty()) return "";
  for (const std::string& name : apart.missing) {
    const std::string& other = apart.unexpected.front();
    if (!name.ends_with("." + other)) continue;
    return ", but has " + host::in_quotes(other) + "; load it into the part of the model that has these names, as " +
           "load_weights(*net." + name.substr(0, name.size() - other.size() - 1) + ", file)";
  }
  return "";
}

void check_names(const NamesApart& apart, const std::string& path) {
  if (!(apart.missing.empty() && apart.unexpected.empty()) && is_in_checkpoint(path)) {
    throw UserError(path +
                    " is a part of a checkpoint, which holds more than weights; give the folder that it is in to " +
                    "cohort::load_module(module, folder)");
  }
  if (!apart.missing.empty()) {
    const std::string way = way_without_prefix(apart);
    throw UserError(path + " has no tensor '" + apart.missing.front() + "', which the model has" +
                    (way.empty() ? way_of_part(apart) : way));
  }
  if (!apart.unexpected.empty()) {
    throw UserError(path + " has a tensor " + host::in_quotes(apart.unexpected.front()) +
                    ", which the model does not have");
  }
}

void check_shapes(const NamedTensors& state, const SafetensorsFile& file, const std::string& path) {
  for (const auto& [name, tensor] : state) {
    const at::Tensor* stored = file.find(name);
    if (!stored || stored->sizes() == tensor.sizes()) continue;
    throw UserError(path + " has '" + name + "' with shape " + shape_text(*stored) + ", the model has " +
                    shape_text(tensor));
  }
}

void warn_if_nothing_matches(const NamesApart& apart, size_t names, const std::string& path) {
  if (apart.missing.size() < names) return;
  TORCH_WARN("load_weights has changed nothing: no tensor of ", path, " has the name of one of the model",
             apart.missing.empty() || apart.unexpected.empty()
                 ? ""
                 : " (there is " + host::in_quotes(apart.unexpected.front()) + ", the model has '" +
                       apart.missing.front() + "')");
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path) {
  write_safetensors(path, named_state_of(module));
}

NamesApart load_weights(torch::nn::Module& module, const std::filesystem::path& path, bool strict) {
  return load_tensors(module, read_safetensors(path), path.string(), strict);
}

NamesApart load_tensors(torch::nn::Module& module, const SafetensorsFile& file, const std::string& path, bool strict) {
  const at::NoGradGuard no_grad;
  const auto state = named_state_of(module);
  NamesApart apart = names_apart(state, file);
  check_shapes(state, file, path);  // all of it before the first tensor changes
  if (strict) check_names(apart, path);
  for (const auto& [name, tensor] : state) {
    if (const at::Tensor* stored = file.find(name)) tensor.copy_(*stored);
  }
  warn_if_nothing_matches(apart, state.size(), path);
  return apart;
}

}  // namespace cohort
