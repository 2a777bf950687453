#include "fused_steps.hpp"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

using State = torch::optim::OptimizerParamState;

/// The settings of a group.
class Settings {
 public:
  Settings(const OptimizerKind& kind, torch::optim::OptimizerOptions& options) {
    kind.visit_settings(options, [&](const char* name, SettingField field) {
      const auto* const number = std::get_if<double*>(&field);
      values_[name] = number ? **number : (*std::get<bool*>(field) ? 1.0 : 0.0);
    });
  }
  double number(std::string_view name) const { return values_.at(name); }
  bool flag(std::string_view name) const { return number(name) != 0; }
  bool keeps(std::string_view state) const {
    return state == "max_exp_avg_sq" ? flag("amsgrad") : state != "momentum_buffer" || flag("momentum");
  }

 private:
  std::map<std::string_view, double> values_;
};

/// One call takes parameters of one device and type that all have a momentum buffer already, or all none.
using CallKey = std::tuple<c10::DeviceIndex, c10::ScalarType, bool>;

/// The arguments of a call. All lists have the parameters in the same order.
struct Call {
  std::vector<at::Tensor> weights, gradients, counts;
  std::vector<std::vector<at::Tensor>> state;  // by field
};

bool has_kernel(const OptimizerKind& kind, const at::Tensor& parameter) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const c10::DispatchKey key = c10::highestPriorityBackendTypeId(parameter.key_set());
  const auto kernel = dispatcher.findSchema({kind.fused, ""});
  return kernel && (kernel->hasKernelForDispatchKey(key) || dispatcher.hasBackendFallbackForDispatchKey(key));
}

// A dimension of one element has any stride.
bool has_strides_of(const at::Tensor& tensor, const at::Tensor& parameter) {
  for (int64_t dim = 0; dim < parameter.dim(); ++dim) {
    if (parameter.size(dim) != 1 && tensor.stride(dim) != parameter.stride(dim)) return false;
  }
  return true;
}

bool is_like(const at::Tensor& tensor, const at::Tensor& parameter) {
  return tensor.layout() == at::kStrided && tensor.device() == parameter.device() &&
         tensor.scalar_type() == parameter.scalar_type() && tensor.sizes() == parameter.sizes() &&
         has_strides_of(tensor, parameter);
}

bool can_take(const OptimizerKind& kind, const at::Tensor& parameter, State* state) {
  const bool is_dense = parameter.layout() == at::kStrided && parameter.is_non_overlapping_and_dense() &&
                        at::isFloatingType(parameter.scalar_type());
  if (!is_dense || !is_like(parameter.grad(), parameter)) return false;
  bool are_alike = true;
  if (state) {
    kind.visit_state(*state, [&](const char*, StateField field) {
      const auto* const tensor = std::get_if<at::Tensor*>(&field);
      if (tensor && (*tensor)->defined()) are_alike &= is_like(**tensor, parameter);
    });
  }
  return are_alike && has_kernel(kind, parameter);
}

// Makes the missing tensors as torch::optim's first step does; a momentum buffer stays uninitialized, because the first
// step of the kernel only writes it. Returns whether none was missing.
bool complete_state(const OptimizerKind& kind, State& state, const Settings& settings, const at::Tensor& parameter) {
  bool was_complete = true;
  kind.visit_state(state, [&](const char* name, StateField field) {
    auto* const tensor = std::get_if<at::Tensor*>(&field);
    if (!tensor || (*tensor)->defined() || !settings.keeps(name)) return;
    was_complete = false;
    const at::Tensor like = parameter.detach();
    **tensor = std::string_view(name) == "momentum_buffer" ? at::empty_like(like) : at::zeros_like(like);
  });
  return was_complete;
}

int64_t* count_in(const OptimizerKind& kind, State& state) {
  int64_t* count = nullptr;
  kind.visit_state(state, [&](const char*, StateField field) {
    if (auto* const steps = std::get_if<int64_t*>(&field)) count = *steps;
  });
  return count;
}

void add_to(Call& call, const OptimizerKind& kind, State& state, const Settings& settings,
            const at::Tensor& parameter) {
  call.weights.push_back(parameter);
  call.gradients.push_back(parameter.grad());
  size_t number = 0;
  kind.visit_state(state, [&](const char* name, StateField field) {
    auto* const tensor = std::get_if<at::Tensor*>(&field);
    if (!tensor) return;
    if (call.state.size() == number) call.state.emplace_back();
    if (settings.keeps(name)) call.state[number].push_back(**tensor);
    ++number;
  });
}

void launch(const Call& call, const OptimizerKind& kind, const Settings& given, bool is_first) {
  const auto& [weights, gradients, counts, state] = call;
  const double lr = given.number("lr"), decay = given.number("weight_decay");
  constexpr bool kMaximize = false;
  if (std::string_view(kind.id) == "sgd") {
    at::_fused_sgd_(weights, gradients, state[0], decay, given.number("momentum"), lr, given.number("dampening"),
                    given.flag("nesterov"), kMaximize, is_first);
    return;
  }
  const double beta1 = given.number("beta1"), beta2 = given.number("beta2"), eps = given.number("eps");
  const bool amsgrad = given.flag("amsgrad");
  if (std::string_view(kind.id) == "adamw") {
    at::_fused_adamw_(weights, gradients, state[0], state[1], state[2], counts, lr, beta1, beta2, decay, eps, amsgrad,
                      kMaximize);
  } else {
    at::_fused_adam_(weights, gradients, state[0], state[1], state[2], counts, lr, beta1, beta2, decay, eps, amsgrad,
                     kMaximize);
  }
}

constexpr const char* kNotTrained = "were not trained in the step before the capture; give --graph more steps";
constexpr const char* kOnCpu =
    "are not stepped by LibTorch's fused kernel (the device has none, or gradient or state are laid out differently), "
    "so "
    "their steps count on the host, where a replay does nothing; choose torch::optim::SGD";

[[noreturn]] void refuse(const at::Tensor& parameter, const std::string& why) {
  throw UserError(c10::str("--graph: weights of the shape ", parameter.sizes(), " ", why, ", or leave --graph out"));
}

}  // namespace

FusedSteps::Groups FusedSteps::step(torch::optim::Optimizer& optimizer, const OptimizerKind& kind) {
  const at::NoGradGuard no_grad;
  auto& groups = optimizer.param_groups();
  Groups others(groups.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    others[group] = step_group(optimizer, kind, groups[group]);
  }
  return others;
}

std::vector<at::Tensor> FusedSteps::step_group(torch::optim::Optimizer& optimizer, const OptimizerKind& kind,
                                               torch::optim::OptimizerParamGroup& group) {
  const Settings settings(kind, group.options());
  std::vector<at::Tensor> others;
  std::map<CallKey, Call> calls;
  for (const at::Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    auto& state = optimizer.state();
    const auto kept = state.find(parameter.unsafeGetTensorImpl());
    if (!can_take(kind, parameter, kept == state.end() ? nullptr : kept->second.get())) {
      others.push_back(parameter);
      continue;
    }
    auto& own = state[parameter.unsafeGetTensorImpl()];
    if (!own) own = kind.make_state();
    const bool was_complete = complete_state(kind, *own, settings, parameter);
    if (is_capturing_ && !was_complete) refuse(parameter, kNotTrained);
    Call& call = calls[{parameter.device().index(), parameter.scalar_type(), was_complete}];
    add_to(call, kind, *own, settings, parameter);
    if (const int64_t* const steps = count_in(kind, *own)) call.counts.push_back(count_on_device(parameter, *steps));
  }
  for (const auto& [key, call] : calls) {
    if (!call.counts.empty()) at::_foreach_add_(call.counts, 1);
    launch(call, kind, settings, /*is_first=*/!std::get<bool>(key));
    for (const at::Tensor& parameter : call.weights) note_step(optimizer, kind, parameter);
  }
  if (is_capturing_ && !others.empty() && count_in(kind, *kind.make_state())) refuse(others[0], kOnCpu);
  return others;
}

// Only the first step on the device, and one after a checkpoint, write the number anew.
at::Tensor FusedSteps::count_on_device(const at::Tensor& parameter, int64_t steps) {
  Count& count = counts_[parameter.unsafeGetTensorImpl()];
  const bool is_there = count.on_device.defined() && count.on_device.device() == parameter.device();
  if (is_there && count.steps == steps) return count.on_device;
  if (is_capturing_) refuse(parameter, kNotTrained);
  const double number = static_cast<double>(steps);
  count = {steps, at::full({}, number, at::TensorOptions(at::kFloat).device(parameter.device()))};
  return count.on_device;
}

void FusedSteps::note_step(torch::optim::Optimizer& optimizer, const OptimizerKind& kind, const at::Tensor& parameter) {
  void* const key = parameter.unsafeGetTensorImpl();
  int64_t* const steps = count_in(kind, *optimizer.state().at(key));
  if (!steps) return;
  counts_.at(key).steps = ++*steps;
  if (is_capturing_) captured_.push_back({&optimizer, &kind, key});
}

void FusedSteps::count_replayed_step() {
  for (const auto& [optimizer, kind, key] : captured_) {
    int64_t* const steps = count_in(*kind, *optimizer->state().at(key));
    Count& count = counts_.at(key);
    if (*steps != count.steps) {
      throw UserError(
          "--graph: an optimizer's count of steps changed after a step was captured, and a replay goes by its own; "
          "leave "
          "the state as it is, or leave --graph out");
    }
    count.steps = ++*steps;
  }
}

}  // namespace cohort
