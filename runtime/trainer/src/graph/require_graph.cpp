#include "graph/require_graph.hpp"

#include <string>
#include <variant>

#include <c10/util/Type.h>

#include <cohort/host/error.hpp>
#include <cohort/optimizer_kinds.hpp>
#include <cohort/step_graph.hpp>

namespace cohort {
namespace {

[[noreturn]] void refuse(const std::string& why, const std::string& way_out) {
  throw UserError("--graph: " + why + "; " + way_out + ", or leave --graph out");
}

bool counts_on_cpu(const OptimizerKind& kind) {
  bool counts = false;
  if (kind.fused) return false;
  const auto state = kind.make_state();
  kind.visit_state(*state, [&](const char*, StateField field) { counts |= std::holds_alternative<int64_t*>(field); });
  return counts;
}

void check(const torch::optim::Optimizer& optimizer) {
  const OptimizerKind* const kind = optimizer_kind(optimizer);
  if (!kind) {
    refuse("nobody knows whether " + c10::demangle(typeid(optimizer).name()) + " does something on the host in a step",
           "choose torch::optim::SGD, Adam or AdamW");
  }
  if (counts_on_cpu(*kind)) {
    refuse(std::string(kind->name) + " counts its steps on the host, where a replay does nothing",
           "choose torch::optim::SGD, Adam or AdamW");
  }
}

}  // namespace

void require_graph(const Runtime& runtime, const LoopLimits& limits, const Module& module,
                   const Optimizers& optimizers) {
  runtime.make_graph();
  runtime.require_use(COHORT_USE_GRAPH);
  if (limits.accumulate > 1) refuse("a captured step has one batch", "leave --accumulate-grad-batches out");
  if (runtime.selection().parts > 0) refuse("a captured step has the whole model", "choose another --strategy");
  if (runtime.options().pieces != 1) refuse("a captured step has one batch in one piece", "leave --pieces out");
  if (runtime.options().autotune) refuse("--autotune changes what a step does", "leave that out");
  if (has_loss_scale(runtime.options().precision)) {
    refuse("whether a step is skipped is decided on the host in each step", "choose --precision=bf16-mixed");
  }
  if (runtime.options().detect_anomaly) refuse("--detect-anomaly looks at each operator as it runs", "leave that out");
  if (!module.automatic_optimization()) {
    refuse("module '" + module.name() + "' steps by hand, and only a step of the loop's own is captured",
           "let automatic_optimization() be true");
  }
  if (optimizers.size() > 1) refuse("a captured step has one optimizer", "return one from configure_optimizers");
  if (optimizers.have_schedules()) {
    refuse("a replay repeats the learning rate of the captured step", "return the optimizer without a schedule");
  }
  check(optimizers[0]);
}

}  // namespace cohort
