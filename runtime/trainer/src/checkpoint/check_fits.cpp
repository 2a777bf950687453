#include "checkpoint/check_fits.hpp"

#include <algorithm>
#include <set>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

constexpr size_t kMaxDifferencesShown = 10;

NamedTensors model_tensors(const StepDriver& session) {
  NamedTensors model = named_weights_of(session);
  for (auto& buffer : named_buffers_of(session.module())) model.push_back(std::move(buffer));
  return model;
}

// Integers were once kept as floating numbers with the rest of the model.
bool may_be_read_as(const at::Tensor& saved, const at::Tensor& tensor) {
  return saved.scalar_type() == tensor.scalar_type() || (saved.is_floating_point() && !tensor.is_floating_point());
}

/// Returns how the saved tensor differs from that of the model; empty if it does not.
std::string difference_from(const at::Tensor& tensor, const at::Tensor* saved) {
  if (!saved) return shape_text(tensor) + " in the model, not in the checkpoint";
  if (saved->sizes() != tensor.sizes()) {
    return shape_text(tensor) + " in the model, " + shape_text(*saved) + " in the checkpoint";
  }
  if (may_be_read_as(*saved, tensor)) return "";
  return std::string(c10::toString(tensor.scalar_type())) + " in the model, " + c10::toString(saved->scalar_type()) +
         " in the checkpoint";
}

/// Returns whether the checkpoint has the trained weights beside those that were validated.
bool has_trained(const TensorIndex& tensors) {
  const auto first = tensors.lower_bound(trained_name(""));
  return first != tensors.end() && policy_of(first->first) == StatePolicy::kTrained;
}

void check_model(const StepDriver& session, const LoadedCheckpoint& loaded) {
  std::vector<std::string> differences;
  std::set<std::string, std::less<>> known;
  const auto check = [&](const std::string& name, const at::Tensor& tensor) {
    known.insert(name);
    const std::string difference = difference_from(tensor, find_tensor(loaded.tensors, name));
    if (!difference.empty()) differences.push_back(name + ": " + difference);
  };
  for (const auto& [name, tensor] : model_tensors(session)) check(name, tensor);
  if (has_trained(loaded.tensors)) {
    for (const auto& [name, tensor] : named_weights_of(session)) {
      if (tensor.requires_grad() || loaded.tensors.contains(trained_name(name))) check(trained_name(name), tensor);
    }
    for (const auto& [name, buffer] : named_buffers_of(session.module())) {
      if (loaded.tensors.contains(trained_name(name))) check(trained_name(name), buffer);
    }
  }
  for (const auto& [name, tensor] : loaded.tensors) {
    if (known.contains(name) || policy_of(name) == StatePolicy::kOptimizer || is_of_the_run(name)) continue;
    differences.push_back(name + ": not in the model, " + shape_text(tensor) + " in the checkpoint");
  }
  if (differences.empty()) return;
  std::string text = shown(loaded.path) + " was made by another model; resume with the model that it was trained with";
  for (size_t i = 0; i < std::min(differences.size(), kMaxDifferencesShown); ++i) text += "\n  " + differences[i];
  if (differences.size() > kMaxDifferencesShown) {
    text += "\n  and " + std::to_string(differences.size() - kMaxDifferencesShown) + " more";
  }
  throw UserError(text);
}

void check_precision(const StepDriver& session, const LoadedCheckpoint& loaded) {
  const std::string_view own = to_string(session.runtime().options().precision);
  const std::string& saved = loaded.manifest.precision;
  if (saved == own) return;
  throw UserError(shown(loaded.path) + " was trained with --precision=" + saved + ", and this is --precision=" +
                  std::string(own) + "; give that one, or begin a training with the checkpoint's weights");
}

}  // namespace

void check_fits(StepDriver& session, const LoadedCheckpoint& loaded) {
  check_precision(session, loaded);
  check_model(session, loaded);
  const auto names = parameter_names(session);
  const Optimizers& optimizers = session.optimizers();
  if (loaded.manifest.optimizers.size() != optimizers.size()) {
    throw UserError(shown(loaded.path) + " has " + std::to_string(loaded.manifest.optimizers.size()) +
                    " optimizers, the program " + std::to_string(optimizers.size()));
  }
  std::set<std::string, std::less<>> known;
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    const std::string prefix = optimizer_prefix(phase, optimizers.size());
    check_optimizer(optimizers[phase], names, prefix, loaded.manifest.optimizers[phase], loaded.tensors,
                    shown(loaded.path));
    known.merge(optimizer_names(optimizers[phase], names, prefix));
  }
  for (auto& [name, tensor] : model_tensors(session)) known.insert(name);
  for (const auto& [name, tensor] : loaded.tensors) {
    if (policy_of(name) != StatePolicy::kOptimizer || known.contains(name)) continue;
    throw UserError(shown(loaded.path) + " holds " + host::in_quotes(name) +
                    ", which is of no parameter of the program's optimizers; resume with the program that it is of");
  }
}

}  // namespace cohort
