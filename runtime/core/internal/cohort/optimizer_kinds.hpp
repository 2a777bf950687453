// What the optimizers of LibTorch keep for each parameter, and their settings, by name.
//
// Constant data; visitors are given the optimizer's own fields. Threads: as the optimizer.
#pragma once

#include <functional>
#include <memory>
#include <typeinfo>
#include <variant>

#include <torch/optim/optimizer.h>

namespace cohort {

/// A value that an optimizer keeps for one parameter: a tensor, undefined where it does not need it, or a count.
using StateField = std::variant<at::Tensor*, int64_t*>;
using SettingField = std::variant<double*, bool*>;
template <class Field>
using FieldVisitor = std::function<void(const char* name, Field field)>;

struct OptimizerKind {
  const char* name;   ///< "AdamW"
  const char* id;     ///< "adamw"
  const char* fused;  ///< LibTorch's operator that steps many parameters and has counts on the device; null: none
  const std::type_info* type;
  std::unique_ptr<torch::optim::OptimizerParamState> (*make_state)();
  void (*visit_state)(torch::optim::OptimizerParamState& state, const FieldVisitor<StateField>& visit);
  void (*visit_settings)(torch::optim::OptimizerOptions& options, const FieldVisitor<SettingField>& visit);
};

/// The kind of exactly this type, or null: a class derived from one may keep more.
const OptimizerKind* optimizer_kind(const torch::optim::Optimizer& optimizer);

/// Returns whether the optimizer's step takes a closure that evaluates the loss.
bool needs_closure(const torch::optim::Optimizer& optimizer);

}  // namespace cohort
