#include <cohort/module.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

#include <cohort/callback.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/metric.hpp>
#include <cohort/step_driver.hpp>

#include "data/device_copy.hpp"
#include "failure/hook_place.hpp"
#include "metrics/metric_board.hpp"
#include "metrics/metric_name.hpp"

namespace cohort {
namespace {

Metrics metrics_of(std::initializer_list<Metrics::value_type> values) {
  Metrics metrics;
  for (const auto& [name, value] : values) {
    if (metrics.emplace(name, value).second) continue;
    throw UserError("log was given two values called " + host::in_quotes(name) + "; give each a name of its own");
  }
  return metrics;
}

}  // namespace

Output Module::training_step(const Batch&, int64_t) {
  throw MissingHook("module '" + name() +
                    "' has no training_step; override cohort::Output training_step(const cohort::Batch& batch, int64_t "
                    "index) to return the loss");
}

void Module::validation_step(const Batch&, int64_t) {
  throw MissingHook("there is validation data, but module '" + name() +
                    "' has no validation_step; override void validation_step(const cohort::Batch& batch, int64_t "
                    "index), or return no loader");
}

void Module::test_step(const Batch&, int64_t) {
  throw MissingHook("there is test data, but module '" + name() +
                    "' has no test_step; override void test_step(const cohort::Batch& batch, int64_t index)");
}

Output Module::predict_step(const Batch&, int64_t) {
  throw UserError(
      "module '" + name() +
      "' has no predict_step; override cohort::Output predict_step(const cohort::Batch& batch, int64_t index) "
      "to return a row for each sample");
}

Optimizers Module::configure_optimizers() {
  throw MissingHook(
      "module '" + name() +
      "' has no configure_optimizers; override cohort::Optimizers configure_optimizers() to return an optimizer");
}

std::vector<std::shared_ptr<Callback>> Module::configure_callbacks() {
  return {};
}

void Module::save_hyperparameters(HyperParameters parameters) {
  for (const auto& [name, value] : parameters) {
    if (!is_metric_name(name)) {
      throw UserError("save_hyperparameters: " + host::in_quotes(name) + kCannotHeadAColumn);
    }
    const auto* const number = std::get_if<double>(&value);
    if (!number || std::isfinite(*number)) continue;
    throw UserError("save_hyperparameters was given " + std::to_string(*number) + " as " + host::in_quotes(name) +
                    "; give a finite number, or a text");
  }
  hyperparameters_ = std::move(parameters);
}

Output Module::training_step_end(const Output&) {
  inherits_step_end_ = true;
  return {};
}

void Module::validation_step_end(const Output&) {
  inherits_step_end_ = true;
}

void Module::test_step_end(const Output&) {
  inherits_step_end_ = true;
}

Batch Module::transfer_batch(const Batch& batch, c10::Device device) {
  const bool has_stream = copy_stream_ && copy_stream_->device() == device;
  return has_stream ? copied_on(*copy_stream_, batch) : batch.to(device);
}

c10::Device Module::device() const {
  for (const auto& item : named_parameters()) return item.value().device();
  return c10::kCPU;
}

at::Tensor Module::all_gather(const at::Tensor& tensor) {
  if (!session_) {
    throw UserError(
        "all_gather works while fit() trains: in training_step, under dp and ddp2 in training_step_end, and not with a "
        "model "
        "in parts");
  }
  if (session_->runtime().options().uneven == UnevenData::kJoin) {
    throw UserError(
        "all_gather does not go with --uneven=join: a rank without a batch has no training_step that would call it; "
        "leave --uneven=join out");
  }
  const bool is_in_parts = session_->runtime().selection().parts > 0;
  if ((session_->runtime().options().pieces != 1 || is_in_parts) && session_->runtime().world_size() > 1) {
    throw UserError(std::string("all_gather does not go with ") + (is_in_parts ? "a model in parts" : "--pieces") +
                    ": a rank with a short batch has fewer pieces that would call it; " +
                    (is_in_parts ? "choose another --strategy" : "leave --pieces out"));
  }
  return session_->all_gather(tensor);
}

void Module::manual_backward(const at::Tensor& loss, size_t optimizer) {
  if (!session_ || automatic_optimization()) {
    throw UserError("manual_backward works in training_step of a module whose automatic_optimization() is false");
  }
  session_->select(optimizer);
  session_->backward(loss);
}

void Module::step(size_t optimizer) {
  if (!session_ || automatic_optimization())
    throw UserError("step works in training_step of a module whose automatic_optimization() is false");
  session_->step(optimizer);
}

void Module::log(std::string_view name, const at::Tensor& value, LogWhere where) {
  log(name, value, LogOptions{.where = where});
}

void Module::log(std::string_view name, double value, LogWhere where) {
  log(name, value, LogOptions{.where = where});
}

void Module::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  board_ ? board_->add(name, value, options) : warn_unrecorded(name);
}

void Module::log(std::string_view name, double value, const LogOptions& options) {
  board_ ? board_->add(name, value, options) : warn_unrecorded(name);
}

void Module::log(const Metrics& values, LogWhere where) {
  for (const auto& [name, value] : values) log(name, value, where);
}

void Module::log(std::initializer_list<Metrics::value_type> values, LogWhere where) {
  log(metrics_of(values), where);
}

void Module::log(std::string_view name, Metric& metric, LogWhere where) {
  if (board_) return board_->add(name, metric, where);
  warn_unrecorded(name);
  if (is_recorded_) metric.reset();  // nobody asks for what it has added up
}

void Module::log(std::string_view prefix, MetricCollection& metrics, LogWhere where) {
  for (const auto& [name, metric] : metrics.metrics()) log(std::string(prefix) + name, *metric, where);
}

void Module::warn_unrecorded(std::string_view name) {
  if (is_recorded_ || std::exchange(has_warned_, true)) return;
  TORCH_WARN("log(\"", name, "\") is not recorded: no step runs; log in a step of the module or in on_train_epoch_end");
}

Module::Recording::Recording(Module& module, MetricBoard* board)
    : module_(module), previous_(module.board_), was_recorded_(module.is_recorded_) {
  module_.board_ = board;
  module_.is_recorded_ = true;
}

Module::Recording::~Recording() {
  module_.board_ = previous_;
  module_.is_recorded_ = was_recorded_;
}

namespace detail {
namespace {

void copy_tensors(const torch::OrderedDict<std::string, at::Tensor>& from,
                  torch::OrderedDict<std::string, at::Tensor>& to, const char* what) {
  if (from.size() != to.size()) {
    throw UserError("a clone of the module has " + std::to_string(to.size()) + " " + what + " where the module has " +
                    std::to_string(from.size()) + "; make() must give a module of the same shape");
  }
  for (const auto& item : from) {
    at::Tensor* target = to.find(item.key());
    if (!target || target->sizes() != item.value().sizes()) {
      throw UserError("a clone of the module differs from the module in " + item.key() +
                      "; make() must give a module of the same shape");
    }
    if (target->scalar_type() != item.value().scalar_type()) target->set_data(target->to(item.value().scalar_type()));
    target->copy_(item.value());
    target->set_requires_grad(item.value().requires_grad());
  }
}

}  // namespace

GeneratorKeeper::GeneratorKeeper() : state_(at::detail::getDefaultCPUGenerator().get_state()) {}

GeneratorKeeper::~GeneratorKeeper() {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state_);
}

std::vector<bool> training_modes(const torch::nn::Module& module) {
  std::vector<bool> modes{module.is_training()};
  for (const auto& part : module.modules(/*include_self=*/false)) modes.push_back(part->is_training());
  return modes;
}

void set_training_modes(torch::nn::Module& module, const std::vector<bool>& modes) {
  // train() reaches all descendants: they are set anew after their parents.
  module.train(modes[0]);
  size_t index = 1;
  for (const auto& part : module.modules(/*include_self=*/false)) part->train(modes[index++]);
}

void copy_module_state(const torch::nn::Module& from, torch::nn::Module& to, const std::optional<at::Device>& device) {
  const at::NoGradGuard no_grad;
  if (device) to.to(*device);
  auto parameters = to.named_parameters();
  copy_tensors(from.named_parameters(), parameters, "parameters");
  auto buffers = to.named_buffers();
  copy_tensors(from.named_buffers(), buffers, "buffers");
  set_training_modes(to, training_modes(from));
}

}  // namespace detail
}  // namespace cohort
