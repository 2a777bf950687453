#include "plan.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include <ATen/core/enum_tag.h>

namespace fake_torch {
namespace {

bool is_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return true;
  const auto inner = type->containedTypes();
  return (type->kind() == c10::TypeKind::ListType || type->kind() == c10::TypeKind::OptionalType) &&
         is_tensors(inner[0]);
}

bool is_indices(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::ListType && type->containedTypes()[0]->kind() == c10::TypeKind::OptionalType;
}

bool is_generator(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::GeneratorType ||
         (type->kind() == c10::TypeKind::OptionalType && is_generator(type->containedTypes()[0]));
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// These change running statistics, and their schemas do not say so.
bool hides_writes(const std::string& operator_name) {
  return operator_name == "aten::native_batch_norm" || operator_name == "aten::batch_norm_update_stats";
}

void look_at_arguments(Plan& plan, const c10::FunctionSchema& schema) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    plan.is_written.push_back(writes(argument));
    plan.is_hidden_write.push_back(hides_writes(schema.name()) &&
                                   (argument.name() == "running_mean" || argument.name() == "running_var"));
    plan.is_generator.push_back(is_generator(argument.type()));
    plan.takes_indices |= is_indices(argument.type());
    if (argument.name() == "training") plan.training = i;
  }
}

void look_at_results(Plan& plan, const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  for (const c10::Argument& result : schema.returns()) {
    plan.tells_host |= !is_tensors(result.type());
    plan.is_view |= result.alias_info() && !writes(result);
    if (!writes(result)) continue;
    const auto is_it = [&](const c10::Argument& argument) {
      return writes(argument) && argument.alias_info()->beforeSets() == result.alias_info()->beforeSets();
    };
    const auto found = std::find_if(arguments.begin(), arguments.end(), is_it);
    if (found != arguments.end()) plan.returned.push_back(static_cast<size_t>(found - arguments.begin()));
  }
  const auto is_set = [](bool value) { return value; };
  plan.can_wait = plan.returned.size() == schema.returns().size() &&
                  std::any_of(plan.is_written.begin(), plan.is_written.end(), is_set) &&
                  std::none_of(plan.is_generator.begin(), plan.is_generator.end(), is_set);
}

}  // namespace

const Plan& plan_of(const c10::OperatorHandle& op) {
  static auto& mutex = *new std::mutex;
  static auto& plans = *new std::unordered_map<c10::OperatorHandle, Plan>;  // stable addresses
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = plans.try_emplace(op);
  Plan& plan = place->second;
  if (!is_new) return plan;
  plan.name = c10::toString(op.operator_name());
  plan.kernel = optimizer_kernel(op.operator_name());
  look_at_arguments(plan, op.schema());
  look_at_results(plan, op.schema());
  plan.has_open_sizes = op.hasTag(at::Tag::dynamic_output_shape);
  return plan;
}

}  // namespace fake_torch
