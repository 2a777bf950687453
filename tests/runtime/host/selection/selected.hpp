// A selection among the fakes, and what is said where it is refused.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>

namespace cohort::host {

/// One process per device, as most strategies plan.
inline StrategyPlan plan_processes(const StrategySpec& strategy, std::span<const Spec>, const cohort_job& job) {
  cohort_plan plan{sizeof(cohort_plan), job.num_devices, 1, COHORT_LAUNCH_EXEC, "shm,gloo"};
  if (job.num_devices * job.num_nodes == 1 || job.external_world_size > 0) plan.launch = COHORT_LAUNCH_NONE;
  if (strategy.name == "replicas") {
    plan.processes_per_node = 1;
    plan.replicas_per_process = job.num_devices;
    plan.launch = job.num_nodes > 1 ? plan.launch : COHORT_LAUNCH_NONE;
  }
  if (strategy.name == "forks" || (strategy.name == "ddp_spawn" && plan.launch == COHORT_LAUNCH_EXEC)) {
    plan.launch = COHORT_LAUNCH_FORK;
  }
  if (strategy.name == "senseless") plan.processes_per_node = job.num_devices + 1;
  if (strategy.name == "silent") plan.collectives = nullptr;
  if (strategy.name == "gpu_wires") plan.collectives = "shm,nccl";
  if (strategy.name == "choosy") plan.collectives = "nowhere,shm";
  if (strategy.name == "parts") {
    plan.processes_per_node = 1;
    plan.launch = job.num_nodes > 1 ? plan.launch : COHORT_LAUNCH_NONE;
    return {plan, static_cast<uint32_t>(job.num_devices)};
  }
  if (strategy.name == "pairs") {
    plan.processes_per_node = job.num_devices / 2;
    return {plan, 2};
  }
  if (strategy.name == "both") {
    plan.processes_per_node = 1;
    plan.replicas_per_process = 2;
    return {plan, 2};
  }
  return plan;
}

struct Case {
  std::vector<std::string> arguments;
  Variables variables;
  std::vector<std::string> folders{"common"};
  Options code;
  StartingRanks starting{};
};

inline Selection selected(const Case& one) {
  Log log({});
  PluginSearch search;
  for (const std::string& folder : one.folders) {
    search.directories.push_back(std::filesystem::path(FAKES) / folder);
  }
  PluginHost plugins(search, log);
  OptionSources sources;
  sources.arguments = one.arguments;
  sources.environment = one.variables;
  return select(plugins, parse_options(sources, one.code), detect_topology(one.variables), plan_processes,
                one.starting);
}

inline Selection selected(std::vector<std::string> arguments) {
  return selected(Case{std::move(arguments), {}, {"common"}, {}});
}

inline std::string refusal(const Case& one) {
  try {
    selected(one);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline std::string refusal(std::vector<std::string> arguments) {
  return refusal(Case{std::move(arguments), {}, {"common"}, {}});
}

inline Variables ranks(int world, int local) {
  return {{"COHORT_RUN_ID", "1"},
          {"WORLD_SIZE", std::to_string(world)},
          {"LOCAL_WORLD_SIZE", std::to_string(local)},
          {"RANK", "0"},
          {"LOCAL_RANK", "0"},
          {"NODE_RANK", "0"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

}  // namespace cohort::host
