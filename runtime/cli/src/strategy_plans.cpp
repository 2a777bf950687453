#include "strategy_plans.hpp"

#include <array>
#include <exception>
#include <string_view>

#include <cohort/api/accelerator.h>
#include <cohort/api/strategy.h>
#include <cohort/host/combinations.hpp>
#include <cohort/host/rank_runtime.hpp>

namespace cohort::cli {
namespace {

cohort_job job_of(int devices, int nodes, int external_world_size, int32_t device_type = COHORT_DEVICE_CPU) {
  cohort_job job{};
  job.struct_size = sizeof job;
  job.device_type = device_type;
  job.num_devices = devices;
  job.num_nodes = nodes;
  job.external_world_size = external_world_size;
  return job;
}

/// Jobs that ask for one thing each, in two ways: a strategy that can do it plans one of them. Ranks may have been
/// started for it, one for each device or one for each node.
struct Question {
  host::Use use;
  std::array<cohort_job, 2> jobs;
};

std::array<Question, 4> questions() {
  using host::Use;
  const auto twice = [](const cohort_job& job) { return std::array{job, job}; };
  return {Question{Use::kAlone, twice(job_of(2, 1, 0))}, Question{Use::kLaunched, {job_of(2, 1, 2), job_of(2, 2, 2)}},
          Question{Use::kNodes, {job_of(2, 2, 0), job_of(2, 2, 4)}},
          Question{Use::kGpu, {job_of(1, 1, 0, COHORT_DEVICE_CUDA), job_of(1, 1, 1, COHORT_DEVICE_CUDA)}}};
}

class Planner {
 public:
  Planner(host::PluginHost& plugins, host::Log& log, const std::string& name)
      : plugins_(plugins), log_(log), strategy_(name) {}

  /// True, or why not.
  Json answer(const Question& question) const {
    const std::string refusal = this->refusal(question.jobs.front());
    if (refusal.empty() || this->refusal(question.jobs.back()).empty()) return true;
    return refusal;
  }

  std::string spread() const {
    for (const cohort_job& job : {job_of(2, 1, 0), job_of(2, 1, 2)}) {
      if (refusal(job).empty()) return spread_of(plan(job));
    }
    return refusal(job_of(1, 1, 0)).empty() ? "1 x 1" : "-";
  }

 private:
  cohort_plan plan(const cohort_job& job) const { return host::plan_of(plugins_, strategy_, {}, job, log_); }

  std::string refusal(const cohort_job& job) const {
    try {
      plan(job);
      return {};
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  /// Of a plan for two devices.
  static std::string spread_of(const cohort_plan& plan) {
    const auto text = [](int32_t count) { return count == 2 ? std::string("k") : std::to_string(count); };
    return text(plan.processes_per_node) + " x " + text(plan.replicas_per_process);
  }

  host::PluginHost& plugins_;
  host::Log& log_;
  StrategySpec strategy_;
};

std::string_view name_of(host::Use use) {
  for (const host::UseText& text : host::uses()) {
    if (text.use == use) return text.name;
  }
  return {};
}

Json look_at_strategy(host::PluginHost& plugins, host::Log& log, const cohort_component& component) {
  Json report{{"free", component.inherits != nullptr && std::string_view(component.inherits) == "*"}};
  if (report["free"]) return report;
  const Planner planner(plugins, log, component.name);
  report["spread"] = planner.spread();
  for (const Question& question : questions()) {
    report["uses"][std::string(name_of(question.use))] = planner.answer(question);
  }
  return report;
}

bool serves_gpus(const cohort_component* accelerator) {
  return accelerator != nullptr &&
         static_cast<const cohort_accelerator_vt*>(accelerator->vtable)->device_type != COHORT_DEVICE_CPU;
}

}  // namespace

Json look_at_plugin(host::PluginHost& plugins, host::Log& log, const std::string& name) {
  const cohort_component* strategy = plugins.find(host::Kind::kStrategy, name);
  return {{"strategy", strategy == nullptr ? Json() : look_at_strategy(plugins, log, *strategy)},
          {"gpu", serves_gpus(plugins.find(host::Kind::kAccelerator, name))}};
}

}  // namespace cohort::cli
