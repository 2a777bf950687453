#include "spawn/parcel.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <cohort/host/error.hpp>
#include <cohort/host/message.hpp>

#include "checkpoint/generators.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "module/step_access.hpp"
#include "program/summary.hpp"
#include "state/tensor_index.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunRecord, steps, steps_before, epochs, seconds_to_first_step, samples,
                                   training_seconds, bytes_sent, step_ms, metrics, strategy_metrics, weights_sha256,
                                   exit_reason, log_folder)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ForkedRanks, collective, layers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ParameterGroup, options, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptimizerSettings, type, groups)

namespace {

constexpr const char* kFigures = "figures";
constexpr const char* kRecord = "record";
constexpr const char* kForked = "forked";
constexpr const char* kTraining = "training";
constexpr const char* kStop = "stop";
constexpr const char* kOptimizers = "optimizers";
constexpr const char* kModelPrefix = "model/";

/// What a training leaves of a module beside its tensors.
struct TrainedModule {
  std::vector<bool> modes, requires_grad;
  uint64_t step = 0;
  int64_t epoch = 0;
  std::vector<uint64_t> total_steps{};  ///< one number, or none
  size_t phase = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainedModule, modes, requires_grad, step, epoch, total_steps, phase)

void put_bytes(Parcel& parcel, const std::string& name, const std::string& bytes) {
  parcel.tensors.emplace_back(name, at::tensor(std::vector<uint8_t>(bytes.begin(), bytes.end())));
}

std::string bytes_of(const Parcel& parcel, const std::string& name) {
  const at::Tensor& tensor = *parcel.find(name);
  const uint8_t* const data = tensor.const_data_ptr<uint8_t>();
  return {data, data + tensor.numel()};
}

template <class T>
void put_message(Parcel& parcel, const std::string& name, const T& value) {
  put_bytes(parcel, name, to_message(value));
}

/// Leaves members as they are that are not in the message.
template <class T>
void take_message(const Parcel& parcel, const std::string& name, T& value) {
  nlohmann::json::from_cbor(bytes_of(parcel, name)).get_to(value);
}

std::vector<bool> requires_grad_of(const Module& module) {
  std::vector<bool> requires_grad;
  for (const auto& parameter : module.parameters()) requires_grad.push_back(parameter.requires_grad());
  return requires_grad;
}

TrainedModule trained_module(Module& module) {
  const detail::ModulePlace& place = detail::StepAccess::place(module);
  TrainedModule trained{.modes = detail::training_modes(module),
                        .requires_grad = requires_grad_of(module),
                        .step = place.step,
                        .epoch = place.epoch,
                        .phase = module.phase()};
  if (place.total_steps) trained.total_steps.push_back(*place.total_steps);
  return trained;
}

/// Says how far the module was trained. Rank and world size stay those of this process.
void set_place(Module& module, const TrainedModule& trained) {
  detail::ModulePlace& place = detail::StepAccess::place(module);
  place.step = trained.step;
  place.epoch = trained.epoch;
  place.total_steps = trained.total_steps.empty() ? std::nullopt : std::optional(trained.total_steps.front());
  detail::StepAccess::set_phase(module, trained.phase);
}

/// Copies what the rank's module has into the tensors of this one. Throws UserError, before anything has changed, if
/// the rank's has come to have others.
void copy_model(const TensorIndex& brought, const NamedTensors& model) {
  for (const auto& [name, tensor] : model) {
    const at::Tensor* const found = find_tensor(brought, kModelPrefix + name);
    if (found && found->sizes() == tensor.sizes()) continue;
    throw UserError("'" + name +
                    "' has another shape since a hook or step in a forked rank, or is gone; shape the module before "
                    "the Trainer is called, or choose --strategy=ddp");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model) tensor.copy_(*find_tensor(brought, kModelPrefix + name));
}

std::vector<OptimizerSettings> settings_of(const Module& module, const Optimizers& optimizers) {
  const auto names = parameter_names(module);
  std::vector<OptimizerSettings> settings;
  for (const auto& optimizer : optimizers) settings.push_back(optimizer_settings(*optimizer, names));
  return settings;
}

void pack_optimizer(Parcel& parcel, torch::optim::Optimizer& optimizer, const ParameterNames& names,
                    const std::string& prefix) {
  try {
    for (auto& item : optimizer_tensors(optimizer, names, prefix)) parcel.tensors.push_back(std::move(item));
  } catch (const UserError& error) {
    parcel.metadata[prefix] = error.what();
  }
}

}  // namespace

void pack_metrics(Parcel& parcel, const std::string& name, const Metrics& metrics) {
  put_message(parcel, name, metrics);
}

Metrics unpack_metrics(const Parcel& parcel, const std::string& name) {
  Metrics metrics;
  take_message(parcel, name, metrics);
  return metrics;
}

Parcel pack_run(const Runtime& runtime, const RunRecord& record) {
  Parcel parcel;
  put_bytes(parcel, kFigures, to_text(own_figures(record)));
  if (!runtime.is_first()) return parcel;
  put_message(parcel, kRecord, record);
  put_message(parcel, kForked, ForkedRanks{{}, runtime.collective(), runtime.layers()});
  parcel.tensors.emplace_back(kGeneratorName, generator_state());
  return parcel;
}

void unpack_run(const std::vector<Parcel>& parcels, RunRecord& record) {
  const Parcel& first = parcels[0];
  take_message(first, kRecord, record);
  take_message(first, kForked, record.forked);
  record.forked.figures.clear();
  for (const Parcel& parcel : parcels) record.forked.figures.push_back(parse_figures(bytes_of(parcel, kFigures)));
  set_generator_state(*first.find(kGeneratorName), "rank 0");
}

void pack_buffers(Parcel& parcel, const Module& module) {
  for (auto& [name, tensor] : named_buffers_of(module)) parcel.tensors.emplace_back(kModelPrefix + name, tensor);
}

void unpack_buffers(const Parcel& parcel, Module& module, host::Log& log) {
  const at::NoGradGuard no_grad;
  const TensorIndex brought = index_of(parcel.tensors);
  std::string others;
  for (const auto& [name, tensor] : named_buffers_of(module)) {
    const at::Tensor* const found = find_tensor(brought, kModelPrefix + name);
    const bool fits = found && found->sizes() == tensor.sizes();
    if (fits) tensor.copy_(*found);
    if (!fits) others += (others.empty() ? "" : ", ") + name;
  }
  if (!others.empty())
    log.warning("buffers that have another shape since a forked rank ran stay as they were: " + others);
}

void pack_training(Parcel& parcel, Module& module, const Optimizers& optimizers, const StopReason& stop) {
  put_bytes(parcel, kStop, to_text({stop, {}}));
  put_message(parcel, kTraining, trained_module(module));
  for (auto& [name, tensor] : named_state_of(module)) parcel.tensors.emplace_back(kModelPrefix + name, tensor);
  put_message(parcel, kOptimizers, settings_of(module, optimizers));
  const auto names = parameter_names(module);
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    pack_optimizer(parcel, optimizers[phase], names, optimizer_prefix(phase, optimizers.size()));
  }
}

StopReason unpack_training(const Parcel& parcel, Module& module, const Optimizers& optimizers, host::Log& log) {
  TrainedModule trained;
  take_message(parcel, kTraining, trained);
  std::vector<OptimizerSettings> settings;
  take_message(parcel, kOptimizers, settings);
  const TensorIndex brought = index_of(parcel.tensors);
  copy_model(brought, named_state_of(module));
  size_t place = 0;
  for (auto& parameter : module.parameters()) {
    parameter.mutable_grad().reset();  // undefined outside of a step
    parameter.set_requires_grad(trained.requires_grad.at(place++));
  }
  detail::set_training_modes(module, trained.modes);
  set_place(module, trained);
  const auto names = parameter_names(module);
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    const std::string prefix = optimizer_prefix(phase, optimizers.size());
    if (const auto problem = parcel.metadata.find(prefix); problem != parcel.metadata.end()) {
      log.warning("the state of optimizer " + std::to_string(phase) + " stays behind in the ranks: " + problem->second);
    } else {
      restore_optimizer(optimizers[phase], names, prefix, settings[phase], brought);
    }
  }
  return merge_reports(std::vector{bytes_of(parcel, kStop)}).stop;
}

}  // namespace cohort
