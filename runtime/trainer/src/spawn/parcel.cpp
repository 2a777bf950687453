#include "spawn/parcel.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>

#include "checkpoint/generators.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "module/step_access.hpp"
#include "program/summary.hpp"
#include "state/state_tree.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr const char* kFigures = "figures";
constexpr const char* kRecord = "record";
constexpr const char* kMetrics = "metrics";
constexpr const char* kStrategyMetrics = "strategy_metrics";
constexpr const char* kStepTimes = "step_ms";
constexpr const char* kTraining = "training";
constexpr const char* kStop = "stop";
constexpr const char* kOptimizers = "optimizers";
constexpr const char* kModelPrefix = "model/";

template <class Number>
at::Tensor tensor_of(const std::vector<Number>& numbers) {
  return at::tensor(numbers);
}

template <class Number>
std::vector<Number> numbers_of(const at::Tensor& tensor) {
  const Number* const data = tensor.const_data_ptr<Number>();
  return {data, data + tensor.numel()};
}

std::vector<bool> trained(const Module& module) {
  std::vector<bool> requires_grad;
  for (const auto& parameter : module.parameters()) requires_grad.push_back(parameter.requires_grad());
  return requires_grad;
}

Json place_of(Module& module) {
  const detail::ModulePlace& place = detail::StepAccess::place(module);
  const Json total = place.total_steps ? Json(*place.total_steps) : Json();
  return {{"step", place.step}, {"epoch", place.epoch}, {"total", total}, {"phase", module.phase()}};
}

/// Says how far the module was trained. Rank and world size stay those of this process.
void set_place(Module& module, const Json& json) {
  detail::ModulePlace& place = detail::StepAccess::place(module);
  place.step = json.at("step");
  place.epoch = json.at("epoch");
  place.total_steps = json.at("total").is_null() ? std::nullopt : std::optional<uint64_t>(json.at("total"));
  detail::StepAccess::set_phase(module, json.at("phase"));
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
  StateWriter(parcel.tensors).in(name).put_all(metrics);
}

Metrics unpack_metrics(const Parcel& parcel, const std::string& name) {
  const TensorIndex tensors = index_of(parcel.tensors);
  return StateReader(tensors, "rank 0").in(name).metrics();
}

Parcel pack_run(const Runtime& runtime, const RunRecord& record) {
  Parcel parcel;
  parcel.metadata[kFigures] = to_text(own_figures(record));
  if (!runtime.is_first()) return parcel;
  const Json json = {{"steps", record.steps},
                     {"steps_before", record.steps_before},
                     {"epochs", record.epochs},
                     {"seconds_to_first_step", record.seconds_to_first_step},
                     {"training_seconds", record.training_seconds},
                     {"exit_reason", record.exit_reason},
                     {"log_folder", record.log_folder.string()},
                     {"collective", runtime.collective()},
                     {"layers", runtime.layers()}};
  parcel.metadata[kRecord] = json.dump();
  parcel.tensors.emplace_back(kStepTimes, tensor_of(record.step_ms));
  parcel.tensors.emplace_back(kGeneratorName, generator_state());
  pack_metrics(parcel, kMetrics, record.metrics);
  pack_metrics(parcel, kStrategyMetrics, record.strategy_metrics);
  return parcel;
}

void unpack_run(const std::vector<Parcel>& parcels, RunRecord& record) {
  const Parcel& first = parcels[0];
  const Json json = Json::parse(first.metadata.at(kRecord));
  record.steps = json.at("steps");
  record.steps_before = json.at("steps_before");
  record.epochs = json.at("epochs");
  record.seconds_to_first_step = json.at("seconds_to_first_step");
  record.training_seconds = json.at("training_seconds");
  record.exit_reason = json.at("exit_reason");
  record.log_folder = json.at("log_folder").get<std::string>();
  record.step_ms = numbers_of<float>(*first.find(kStepTimes));
  record.metrics = unpack_metrics(first, kMetrics);
  record.strategy_metrics = unpack_metrics(first, kStrategyMetrics);
  record.forked = {{}, json.at("collective"), json.at("layers")};
  for (const Parcel& parcel : parcels) record.forked.figures.push_back(parse_figures(parcel.metadata.at(kFigures)));
  const RankFigures& own = record.forked.figures[0];
  record.samples = own.samples;
  record.bytes_sent = own.bytes_sent;
  record.weights_sha256 = own.weights_sha256;
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
  const std::string report = to_text({stop, {}});
  parcel.tensors.emplace_back(kStop, tensor_of(std::vector<uint8_t>(report.begin(), report.end())));
  const Json json = {
      {"modes", detail::training_modes(module)}, {"requires_grad", trained(module)}, {"place", place_of(module)}};
  parcel.metadata[kTraining] = json.dump();
  for (auto& [name, tensor] : named_state_of(module)) parcel.tensors.emplace_back(kModelPrefix + name, tensor);
  parcel.metadata[kOptimizers] = to_json(settings_of(module, optimizers));
  const auto names = parameter_names(module);
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    pack_optimizer(parcel, optimizers[phase], names, optimizer_prefix(phase, optimizers.size()));
  }
}

StopReason unpack_training(const Parcel& parcel, Module& module, const Optimizers& optimizers, host::Log& log) {
  const Json json = Json::parse(parcel.metadata.at(kTraining));
  const auto settings = parse_optimizer_settings(parcel.metadata.at(kOptimizers));
  const TensorIndex brought = index_of(parcel.tensors);
  copy_model(brought, named_state_of(module));
  const std::vector<bool> requires_grad = json.at("requires_grad");
  size_t place = 0;
  for (auto& parameter : module.parameters()) {
    parameter.mutable_grad().reset();  // undefined outside of a step
    parameter.set_requires_grad(requires_grad.at(place++));
  }
  detail::set_training_modes(module, json.at("modes"));
  set_place(module, json.at("place"));
  const auto names = parameter_names(module);
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    const std::string prefix = optimizer_prefix(phase, optimizers.size());
    if (const auto problem = parcel.metadata.find(prefix); problem != parcel.metadata.end()) {
      log.warning("the state of optimizer " + std::to_string(phase) + " stays behind in the ranks: " + problem->second);
    } else {
      restore_optimizer(optimizers[phase], names, prefix, settings[phase], brought);
    }
  }
  const auto report = numbers_of<uint8_t>(*parcel.find(kStop));
  return merge_reports(std::vector{std::string(report.begin(), report.end())}).stop;
}

}  // namespace cohort
