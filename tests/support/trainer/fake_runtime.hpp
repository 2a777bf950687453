// A runtime on ranks of the tests' own: one real rank, the others scripted, so that loops can be tried without plugins
// and processes.
#pragma once

#include <cohort/host/flight_recorder.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/step_driver.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cohort::testing {

/// What the test decides, and what the loop did.
struct Script {
  Options options;
  host::LogSettings log{host::LogLevel::kOff, host::LogFormat::kText, {}, 0, 1};
  host::Selection selection;  ///< at first of a strategy that is not installed, which refuses no use
  host::Topology topology;
  /// What the other ranks gather, given this rank's text; the result is by rank.
  std::function<std::vector<std::string>(std::string)> all_gather = [](std::string own) {
    return std::vector{std::move(own)};
  };
  /// The mean over the ranks, given this rank's tensor.
  std::function<at::Tensor(at::Tensor)> all_reduce = [](at::Tensor own) { return own.clone(); };
  /// The sum or maximum (COHORT_REDUCE_...) over the ranks, in place of this rank's numbers.
  std::function<void(std::span<double>, int32_t reduce)> all_reduce_numbers = [](std::span<double>, int32_t) {};
  /// Which ranks keep the optimizer's state of this parameter.
  std::function<host::StateKeeper(const at::Tensor&)> state_keeper = [](const at::Tensor&) {
    return host::StateKeeper::kEveryRank;
  };
  host::StrategyState strategy;  ///< what the strategy keeps; after a resume what it was given back
  /// What the ranks vote together after optimizer step `step`, given this rank's votes.
  std::function<Votes(uint64_t step, Votes own)> agree = [](uint64_t, Votes own) { return own; };
  std::vector<std::string> calls;            ///< "begin", "backward 0.5", "backward 0.5 no_sync", "step", "pause",
                                             ///< "checkpoint", "finish"
  host::FlightObserver* observer = nullptr;  ///< that the loop has given last
};

/// A script and the runtime on it.
class ScriptedRun {
 public:
  explicit ScriptedRun(const std::function<void(Script&)>& set = [](Script&) {});
  ScriptedRun(const ScriptedRun&) = delete;
  ScriptedRun& operator=(const ScriptedRun&) = delete;

  Runtime& runtime() { return *runtime_; }
  Script& script() { return script_; }
  /// Calls that begin with this word.
  int count(const std::string& word) const;

 private:
  Script script_;
  std::unique_ptr<host::Log> log_;
  std::unique_ptr<host::PluginHost> plugins_;  // finds none
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace cohort::testing
