#include "strategy_report.hpp"

#include <exception>
#include <string_view>

#include <cohort/api/accelerator.h>
#include <cohort/api/strategy.h>
#include <cohort/host/connected_rank.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/host/strategy_layers.hpp>
#include <cohort/host/uses.hpp>

#include "plugin_report.hpp"

namespace cohort::cli {
namespace {

Json cell_of(const host::Answer& answer) {
  if (answer.is_no()) return {{"who", answer.who}, {"why", answer.why}, {"fix", answer.fix}};
  return answer.answer == COHORT_ANSWER_YES ? Json(true) : Json();
}

struct Spread {
  std::string text;  // processes x replicas on a node with k devices, or x parts of the model if there are several
  bool has_replicas = false;
};

Spread spread_of(host::PluginHost& plugins, host::Log& log, const Spec& strategy) {
  constexpr int kDevices = 2;
  const auto can = [&](int32_t use) { return !host::ask_strategy(plugins, strategy, {}, {.use = use}).is_no(); };
  if (!can(COHORT_USE_ALONE) && !can(COHORT_USE_LAUNCHED)) return {"1 x 1"};
  cohort_job job{};
  job.struct_size = sizeof job;
  job.device_type = COHORT_DEVICE_CPU;
  job.num_devices = kDevices;
  job.num_nodes = 1;
  if (!can(COHORT_USE_ALONE)) job.external_world_size = kDevices;
  const auto text = [](int32_t count) { return count == kDevices ? std::string("k") : std::to_string(count); };
  try {
    const host::StrategyPlan plan = host::plan_of(plugins, strategy, {}, job, log);
    const std::string processes = text(plan.processes_per_node) + " x " + text(plan.replicas_per_process);
    return {plan.parts > 1 ? processes + " x " + text(static_cast<int32_t>(plan.parts)) : processes,
            plan.replicas_per_process > 1};
  } catch (const std::exception&) {
    return {"-"};
  }
}

Json report_uses(host::PluginHost& plugins, const Spec& strategy) {
  Json report = Json::object();
  for (const host::UseText& use : host::uses()) {
    const int64_t value = use.use == COHORT_USE_DEVICE_TYPE ? COHORT_DEVICE_CUDA : 0;
    const host::Answer answer = host::ask_strategy(plugins, strategy, {}, {.use = use.use, .value = value});
    report[std::string(use.name)] = cell_of(answer);
  }
  return report;
}

Json report_strategy(host::PluginHost& plugins, host::Log& log, const Spec& strategy) {
  const Spread spread = spread_of(plugins, log, strategy);
  return {{"name", host::to_string(strategy)},
          {"state", "installed"},
          {"spread", spread.text},
          {"advice", spread.has_replicas ? host::kAdviceOnReplicas : std::string_view()},
          {"uses", report_uses(plugins, strategy)}};
}

bool serves_gpus(const cohort_component* accelerator) {
  return accelerator != nullptr &&
         static_cast<const cohort_accelerator_vt*>(accelerator->vtable)->device_type != COHORT_DEVICE_CPU;
}

/// Returns whether two sets of answers are equal, apart from the plugin that gives them.
bool say_the_same(const Json& one, const Json& other) {
  for (const auto& [use, cell] : one.items()) {
    const Json& there = other[use];
    const bool both_refuse = cell.is_object() && there.is_object();
    if (both_refuse ? cell["why"] != there["why"] || cell["fix"] != there["fix"] : cell != there) return false;
  }
  return true;
}

}  // namespace

Json report_strategies(host::PluginHost& plugins, host::Log& log, const std::string& name) {
  Json report{{"gpu", serves_gpus(plugins.find(host::Kind::kAccelerator, name))}, {"strategies", Json::array()}};
  const cohort_component* component = plugins.find(host::Kind::kStrategy, name);
  if (component == nullptr || is_free_layer(*component)) return report;
  Json& strategies = report["strategies"];
  strategies.push_back(report_strategy(plugins, log, Spec(name)));
  for (const std::string& variant : host::inherited_variants(plugins, *component)) {
    Json own = report_strategy(plugins, log, Spec(name, variant));
    if (!say_the_same(own["uses"], strategies.front()["uses"])) strategies.push_back(std::move(own));
  }
  return report;
}

}  // namespace cohort::cli
