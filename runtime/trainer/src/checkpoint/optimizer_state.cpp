#include "checkpoint/optimizer_state.hpp"

#include <cmath>
#include <cstring>
#include <sstream>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <cohort/step_driver.hpp>

#include <cohort/host/in_quotes.hpp>
#include <cohort/optimizer_kinds.hpp>

#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

constexpr const char* kArchive = "archive";

std::string type_name(const torch::optim::Optimizer& optimizer, const OptimizerKind* kind) {
  return kind ? kind->name : c10::demangle(typeid(optimizer).name());
}

/// Calls `visit(name, parameter, group)` for every parameter of every group. A parameter that is not the module's is
/// named by its position: "parameter_3".
template <class Visit>
void each_parameter(torch::optim::Optimizer& optimizer, const ParameterNames& names, Visit&& visit) {
  size_t place = 0;
  auto& groups = optimizer.param_groups();
  for (size_t group = 0; group < groups.size(); ++group) {
    for (at::Tensor& parameter : groups[group].params()) {
      const auto known = names.find(parameter.unsafeGetTensorImpl());
      visit(known == names.end() ? "parameter_" + std::to_string(place) : known->second, parameter, group);
      ++place;
    }
  }
}

std::string key_of(const std::string& prefix, const char* field, const std::string& parameter) {
  return prefix + field + "." + parameter;
}

[[noreturn]] void refuse_to_save(const torch::optim::Optimizer& optimizer, const std::string& reason) {
  throw UserError("the optimizer " + type_name(optimizer, nullptr) + " cannot be put into a checkpoint: " + reason);
}

at::Tensor saved_archive(const torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  try {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    archive.save_to(stream);
  } catch (const c10::Error& error) {  // LBFGS: LibTorch cannot write it before its history is full
    refuse_to_save(optimizer, error.what_without_backtrace());
  }
  const std::string bytes = stream.str();
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

torch::serialize::InputArchive opened(const at::Tensor& bytes) {
  torch::serialize::InputArchive archive;
  archive.load_from(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  return archive;
}

[[noreturn]] void refuse_optimizer(const std::string& file, const std::string& what) {
  throw UserError(file + " does not fit the program's optimizer: " + what +
                  "; resume with the optimizer that it was trained with");
}

void check_groups(const OptimizerSettings& own, const OptimizerSettings& saved, const std::string& file) {
  if (own.type != saved.type) refuse_optimizer(file, "it holds the state of " + saved.type + ", not of " + own.type);
  if (own.groups.size() != saved.groups.size()) {
    refuse_optimizer(file, "it has " + std::to_string(saved.groups.size()) + " groups of parameters, the program " +
                               std::to_string(own.groups.size()));
  }
  for (size_t i = 0; i < own.groups.size(); ++i) {
    if (own.groups[i].parameters == saved.groups[i].parameters) continue;
    refuse_optimizer(file, "its group " + std::to_string(i) + " has " +
                               std::to_string(saved.groups[i].parameters.size()) + " parameters, the program's has " +
                               std::to_string(own.groups[i].parameters.size()) + ", or they are others");
  }
}

/// Returns whether the state has to have this field: some are kept only if a setting asks for them.
bool is_needed(std::string_view field, const ParameterGroup& group) {
  const auto is_set = [&](const char* name) {
    const auto found = group.options.find(name);
    return found != group.options.end() && found->second != 0;
  };
  if (field == "max_exp_avg_sq") return is_set("amsgrad");
  if (field == "momentum_buffer") return is_set("momentum");
  return field != "grad_avg" || is_set("centered");
}

void check_field(const at::Tensor& saved, StateField field, const at::Tensor& parameter, const std::string& key,
                 const std::string& file) {
  const bool is_count = std::holds_alternative<int64_t*>(field);
  const bool fits =
      is_count ? saved.scalar_type() == at::kLong && saved.numel() == 1
               : saved.is_floating_point() == parameter.is_floating_point() && saved.sizes() == parameter.sizes();
  if (!fits) refuse_optimizer(file, "'" + key + "' has shape " + shape_text(saved) + " or another type");
}

}  // namespace

ParameterNames parameter_names(const torch::nn::Module& module) {
  ParameterNames names;
  for (const auto& [name, parameter] : named_parameters_of(module))
    names.emplace(parameter.unsafeGetTensorImpl(), name);
  return names;
}

ParameterNames parameter_names(const StepDriver& session) {
  ParameterNames names = parameter_names(session.module());
  for (const auto& [name, parameter] : named_parameters_of(session.module())) {
    names.emplace(session.weights_of(parameter).unsafeGetTensorImpl(), name);
  }
  return names;
}

std::string optimizer_prefix(size_t phase, size_t phases) {
  return phases == 1 ? "optimizer." : "optimizer." + std::to_string(phase) + ".";
}

NamedTensors optimizer_tensors(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                               const std::string& prefix) {
  NamedTensors tensors;
  const OptimizerKind* const kind = optimizer_kind(optimizer);
  if (!kind) {
    tensors.emplace_back(prefix + kArchive, saved_archive(optimizer));
    if (optimizer.state().empty() || !opened(tensors.back().second).keys().empty()) return tensors;
    refuse_to_save(optimizer, "it keeps state, but does not override save and load");
  }
  each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter, size_t) {
    const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (state == optimizer.state().end()) return;
    kind->visit_state(*state->second, [&](const char* field, StateField value) {
      if (const auto* const count = std::get_if<int64_t*>(&value)) {
        tensors.emplace_back(key_of(prefix, field, name), at::scalar_tensor(**count, at::kLong));
      } else if (const at::Tensor& tensor = *std::get<at::Tensor*>(value); tensor.defined()) {
        tensors.emplace_back(key_of(prefix, field, name), tensor);
      }
    });
  });
  return tensors;
}

OptimizerSettings optimizer_settings(torch::optim::Optimizer& optimizer, const ParameterNames& names) {
  const OptimizerKind* const kind = optimizer_kind(optimizer);
  OptimizerSettings settings{type_name(optimizer, kind), {}};
  size_t place = 0;
  for (auto& group : optimizer.param_groups()) {
    ParameterGroup& described = settings.groups.emplace_back();
    for (const at::Tensor& parameter : group.params()) {
      const auto known = names.find(parameter.unsafeGetTensorImpl());
      described.parameters.push_back(known == names.end() ? "parameter_" + std::to_string(place) : known->second);
      ++place;
    }
    if (!kind) continue;
    kind->visit_settings(group.options(), [&](const char* name, SettingField value) {
      const auto* const number = std::get_if<double*>(&value);
      described.options[name] = number ? **number : *std::get<bool*>(value);
    });
  }
  return settings;
}

void check_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names, const std::string& prefix,
                     const OptimizerSettings& saved, const TensorIndex& tensors, const std::string& file) {
  const OptimizerSettings own = optimizer_settings(optimizer, names);
  check_groups(own, saved, file);
  const OptimizerKind* const kind = optimizer_kind(optimizer);
  if (!kind) {
    const at::Tensor* const archive = find_tensor(tensors, prefix + kArchive);
    if (!archive) refuse_optimizer(file, "it has no '" + prefix + kArchive + "'");
    try {
      opened(*archive);
    } catch (const c10::Error&) {
      refuse_optimizer(file, "'" + prefix + kArchive + "' is no archive of LibTorch");
    }
    return;
  }
  for (size_t i = 0; i < own.groups.size(); ++i) {
    for (const auto& [name, value] : own.groups[i].options) {
      const auto found = saved.groups[i].options.find(name);
      if (found == saved.groups[i].options.end()) refuse_optimizer(file, "it has no setting '" + name + "'");
      if (!std::isfinite(found->second)) refuse_optimizer(file, "its setting '" + name + "' is not a number");
    }
  }
  each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter, size_t group) {
    bool has_state = false;
    std::string missing;
    kind->visit_state(*kind->make_state(), [&](const char* field, StateField value) {
      const std::string key = key_of(prefix, field, name);
      const at::Tensor* const tensor = find_tensor(tensors, key);
      if (tensor) check_field(*tensor, value, parameter, key, file);
      has_state = has_state || tensor;
      if (!tensor && is_needed(field, saved.groups[group])) missing = key;
    });
    if (has_state && !missing.empty()) refuse_optimizer(file, "it has no " + host::in_quotes(missing));
  });
}

std::set<std::string, std::less<>> optimizer_names(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                                                   const std::string& prefix,
                                                   const std::function<bool(const at::Tensor&)>& of) {
  const OptimizerKind* const kind = optimizer_kind(optimizer);
  std::set<std::string, std::less<>> known;
  if (!kind && !of) known.insert(prefix + kArchive);
  if (!kind) return known;
  each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter, size_t) {
    if (of && !of(parameter)) return;
    kind->visit_state(*kind->make_state(),
                      [&](const char* field, StateField) { known.insert(key_of(prefix, field, name)); });
  });
  return known;
}

void restore_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names, const std::string& prefix,
                       const OptimizerSettings& saved, const TensorIndex& tensors) {
  const OptimizerKind* const kind = optimizer_kind(optimizer);
  if (!kind) {
    auto archive = opened(*find_tensor(tensors, prefix + kArchive));
    try {
      optimizer.load(archive);
    } catch (const c10::Error& error) {
      throw UserError("the optimizer " + type_name(optimizer, nullptr) + " cannot read its own state from '" + prefix +
                      kArchive + "' of the checkpoint: " + host::on_one_line(error.what_without_backtrace()));
    }
    return;
  }
  for (size_t i = 0; i < saved.groups.size(); ++i) {
    kind->visit_settings(optimizer.param_groups()[i].options(), [&](const char* name, SettingField value) {
      const double setting = saved.groups[i].options.at(name);
      if (auto* const number = std::get_if<double*>(&value)) {
        **number = setting;
      } else {
        *std::get<bool*>(value) = setting != 0;
      }
    });
  }
  optimizer.state().clear();
  each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter, size_t) {
    auto state = kind->make_state();
    bool is_there = false;
    kind->visit_state(*state, [&](const char* field, StateField value) {
      const at::Tensor* tensor = find_tensor(tensors, key_of(prefix, field, name));
      if (!tensor) return;
      is_there = true;
      if (auto* const count = std::get_if<int64_t*>(&value)) {
        **count = tensor->item<int64_t>();
      } else {
        // With the strides that the optimizer would have given it.
        at::Tensor& target = *std::get<at::Tensor*>(value);
        target = at::empty_like(parameter.detach(), parameter.options().dtype(tensor->scalar_type()));
        target.copy_(*tensor);
      }
    });
    if (is_there) optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  });
}

}  // namespace cohort
