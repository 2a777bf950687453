#include <cohort/optimizer_kinds.hpp>
#include <cohort/qadam.hpp>

#include <array>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace cohort {
namespace {

namespace optim = torch::optim;

void visit_fields(optim::SGDParamState& state, const FieldVisitor<StateField>& visit) {
  visit("momentum_buffer", &state.momentum_buffer());
}

void visit_fields(optim::SGDOptions& options, const FieldVisitor<SettingField>& visit) {
  visit("lr", &options.lr());
  visit("momentum", &options.momentum());
  visit("dampening", &options.dampening());
  visit("weight_decay", &options.weight_decay());
  visit("nesterov", &options.nesterov());
}

template <class State>
requires std::is_same_v<State, optim::AdamParamState> || std::is_same_v<State, optim::AdamWParamState>
void visit_fields(State& state, const FieldVisitor<StateField>& visit) {
  visit("step", &state.step());
  visit("exp_avg", &state.exp_avg());
  visit("exp_avg_sq", &state.exp_avg_sq());
  visit("max_exp_avg_sq", &state.max_exp_avg_sq());
}

template <class Options>
requires std::is_same_v<Options, optim::AdamOptions> || std::is_same_v<Options, optim::AdamWOptions>
void visit_fields(Options& options, const FieldVisitor<SettingField>& visit) {
  visit("lr", &options.lr());
  visit("beta1", &std::get<0>(options.betas()));
  visit("beta2", &std::get<1>(options.betas()));
  visit("eps", &options.eps());
  visit("weight_decay", &options.weight_decay());
  visit("amsgrad", &options.amsgrad());
}

void visit_fields(optim::RMSpropParamState& state, const FieldVisitor<StateField>& visit) {
  visit("step", &state.step());
  visit("square_avg", &state.square_avg());
  visit("momentum_buffer", &state.momentum_buffer());
  visit("grad_avg", &state.grad_avg());
}

void visit_fields(optim::RMSpropOptions& options, const FieldVisitor<SettingField>& visit) {
  visit("lr", &options.lr());
  visit("alpha", &options.alpha());
  visit("eps", &options.eps());
  visit("weight_decay", &options.weight_decay());
  visit("momentum", &options.momentum());
  visit("centered", &options.centered());
}

void visit_fields(optim::AdagradParamState& state, const FieldVisitor<StateField>& visit) {
  visit("step", &state.step());
  visit("sum", &state.sum());
}

void visit_fields(optim::AdagradOptions& options, const FieldVisitor<SettingField>& visit) {
  visit("lr", &options.lr());
  visit("lr_decay", &options.lr_decay());
  visit("weight_decay", &options.weight_decay());
  visit("initial_accumulator_value", &options.initial_accumulator_value());
  visit("eps", &options.eps());
}

template <class Optimizer, class State, class Options>
OptimizerKind kind(const char* name, const char* id, const char* fused = nullptr) {
  return {name,
          id,
          fused,
          &typeid(Optimizer),
          []() -> std::unique_ptr<optim::OptimizerParamState> { return std::make_unique<State>(); },
          [](optim::OptimizerParamState& state, const FieldVisitor<StateField>& visit) {
            visit_fields(static_cast<State&>(state), visit);
          },
          [](optim::OptimizerOptions& options, const FieldVisitor<SettingField>& visit) {
            visit_fields(static_cast<Options&>(options), visit);
          }};
}

}  // namespace

const OptimizerKind* optimizer_kind(const optim::Optimizer& optimizer) {
  static const std::array<OptimizerKind, 6> kKinds{
      kind<optim::SGD, optim::SGDParamState, optim::SGDOptions>("SGD", "sgd", "aten::_fused_sgd_"),
      kind<optim::Adam, optim::AdamParamState, optim::AdamOptions>("Adam", "adam", "aten::_fused_adam_"),
      kind<QAdam, optim::AdamParamState, optim::AdamOptions>("QAdam", "adam"),
      kind<optim::AdamW, optim::AdamWParamState, optim::AdamWOptions>("AdamW", "adamw", "aten::_fused_adamw_"),
      kind<optim::RMSprop, optim::RMSpropParamState, optim::RMSpropOptions>("RMSprop", "rmsprop"),
      kind<optim::Adagrad, optim::AdagradParamState, optim::AdagradOptions>("Adagrad", "adagrad")};
  for (const auto& known : kKinds) {
    if (*known.type == typeid(optimizer)) return &known;
  }
  return nullptr;
}

bool needs_closure(const optim::Optimizer& optimizer) {
  return dynamic_cast<const optim::LBFGS*>(&optimizer) != nullptr;
}

}  // namespace cohort
