// One rank of a run, connected, without LibTorch: layers of the strategy, communicators, lane, buckets and step.
//
// The runtime's core puts tensors on top of it; the toy host runs several of them as threads of one process.
// Constructor and destructor are local; connect, configure and the functions of rank.hpp are collective. [main] thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/api/strategy.h>
#include <cohort/host/device_port.hpp>
#include <cohort/host/environment.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/model_port.hpp>
#include <cohort/host/parts.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/rank.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/host/state_owners.hpp>
#include <cohort/host/step_engine.hpp>
#include <cohort/host/store.hpp>
#include <cohort/host/strategy_state.hpp>

namespace cohort::host {

struct RankState;
class HostObject;
class RankStore;

struct RankSetup {
  PluginHost& plugins;
  const Selection& selection;
  Topology topology;
  Log& log;
  std::chrono::nanoseconds timeout{std::chrono::seconds(300)};  ///< of every wait; init_dist_connection may change it
  std::chrono::nanoseconds connect_timeout{std::chrono::seconds(60)};  ///< until all are there, if `timeout` is longer
  std::optional<uint64_t> bucket_size;                                 ///< bytes; wins over the strategy's
  std::optional<std::filesystem::path> autotune_file;  ///< if set, trials are run and the best is written here
  bool deterministic = false;                          ///< sums have the same bits on every collective
  bool inspects_layers = false;                        ///< finds the layer that writes behind a bucket of the CPU; slow
  std::string options_text{};                          ///< from text_across_ranks; ranks compare it
  uint64_t seed = 0;                                   ///< of the job's random numbers
  std::string precision = "32";                        ///< as the user writes it
  std::string log_dir{};                               ///< absolute; "" if the user gave none
  std::optional<Key> secret{};                         ///< of the job: what only its ranks know
  DevicePort* device_port = nullptr;                   ///< outlives the rank; null: the CPU alone
  /// The program's own way to connect, a layer above all others; empty: there is none. `inherited` runs the slot of the
  /// layer below with the present arguments.
  std::function<void(cohort_dist_args& args, const std::function<void()>& inherited)> init_dist_connection{};
  /// Opens the host's store for these arguments; called once, in base's init_dist_connection.
  std::function<std::unique_ptr<Store>(const cohort_dist_args&)> open_store;
};

class ConnectedRank final : public Rank {
 public:
  /// Opens the plugins of the selection and creates the layers. Throws what opening and creating throw.
  explicit ConnectedRank(RankSetup setup);
  ~ConnectedRank() override;

  void connect() override;
  void shutdown() override;
  void barrier() override;
  void all_reduce(std::span<double> values, int32_t reduce) override;
  void broadcast(std::span<std::byte> data, int root) override;
  std::vector<std::string> all_gather(std::string_view text) override;
  void agree(const std::string& topic, std::string_view text, std::string_view problem) override;
  bool is_same_on_all_ranks(uint64_t value, const std::string& purpose) override;
  uint64_t bytes_sent() const override;
  std::string collective() const override;
  std::vector<std::string> layers() const override;
  void observe(FlightObserver* observer) override;

  /// Lets the strategy prepare for this model. Returns the engine of its steps, which lives until release_model. Throws
  /// UserError while another model is configured.
  StepEngine& configure(ModelPort& model);
  /// Lays buckets out anew in the order of arrival, or tries ways to communicate, if it is time. Call it after each
  /// optimizer step, when gradients are forgotten. Collective at the same steps on all ranks.
  void between_steps();
  /// Lays buckets out anew after parameters of the model were frozen or unfrozen, between two steps. Throws UserError
  /// unless they were on every rank. Collective.
  void trained_parameters_changed();
  /// Releases the model, if it is the configured one. Frees its buckets, except memory that tensors of the program
  /// still use. After a step that failed half-way it aborts the communicators, so that nothing writes into freed
  /// memory. Local.
  void release_model(ModelPort& model);
  /// Returns who keeps the optimizer's state of a parameter of the configured model.
  StateKeeper state_keeper(uint32_t parameter) const;
  /// Returns whether this rank has the parameter's gradient once gradients are reduced, to show it.
  bool has_mean_gradient(uint32_t parameter) const;
  /// Tells the strategy that training pauses for `reason` (COHORT_PAUSE_...), and gives rank 0's buffers to all.
  void pause(int32_t reason);
  /// Returns the strategy's state, after pause(COHORT_PAUSE_CHECKPOINT). Local.
  StrategyState save_state();
  /// Restores the state, before the first step; `steps` were done when it was saved.
  void load_state(StrategyState saved, uint64_t steps);
  /// Returns the numbers that the strategy has set for the summary in this training, by name.
  std::map<std::string, double> strategy_metrics() const;
  /// Returns whether the strategy lets ranks have different weights between steps: it answers NO to
  /// COHORT_USE_EQUAL_RANKS. Asks all layers.
  bool ranks_may_differ() const;
  /// Returns where the strategy cuts the model into the parts of its plan, which it must have (cohort.parts/1). Ranks
  /// have the same units in the same order; rank 0's figures count, and the smallest limit of each device (0: none).
  /// Throws UserError if there are fewer units than parts, or if the strategy refuses. Collective.
  PartsCut cut_into_parts(std::span<const ModelUnit> units, std::span<const uint64_t> limits, uint32_t num_pieces);
  /// Returns whether the strategy lets backward begin when all pieces have ended forward.
  bool runs_forward_first() const;

  /// Run a collective of the user's own tensors, on a communicator that strategies do not use. It is ordered by the
  /// calling thread's stream; the stream of `args` says on which device the tensors are.
  void user_all_reduce(cohort_op_args args);
  void user_all_gather(cohort_op_args args);

  HostObject& host() const;
  RankStore& store() const;
  /// Ends running and later operations of this rank soon, and those of ranks that wait for it.
  void abort();
  /// Returns how often threads have waited for each lane, the default one first.
  std::vector<std::pair<std::string, uint64_t>> lane_waits() const;
  const Topology& topology() const;
  Log& log() const;

 private:
  std::unique_ptr<RankState> state_;
};

/// Returns the strategy's plan for a job, and its number of parts (cohort.parts/1); nothing is connected.
StrategyPlan plan_of(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                     const cohort_job& job, Log& log);

}  // namespace cohort::host
