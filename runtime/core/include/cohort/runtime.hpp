// This rank of a running job: its place, its device, and small collectives for everything that is not a gradient.
//
// Made once per process, after launch, and then connected. [main] thread. `shutdown` is explicit and collective; the
// destructor never communicates, so a rank that fails can be torn down alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>

#include <cohort/host/environment.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/options.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/precision.hpp>

struct cohort_store;  // of cohort/api/store.h

namespace torch::nn {
class Module;
}

namespace cohort {

namespace host {
class FlightObserver;
class PluginHost;
class Rank;
class ConnectedRank;
struct Selection;
}  // namespace host
class StepDriver;
class StepGraph;

/// The connection of a rank to its job, for the function of Program::init_dist_connection. The function may change the
/// address, the port, the timeout and the store before it calls connect(), alike on all ranks.
struct DistConnection {
  int rank, world_size, local_rank, local_world_size, node_rank, num_nodes;
  std::string master_addr;  ///< of the job's first rank
  int master_port;
  std::chrono::nanoseconds timeout;  ///< of the collective's connection and of every later operation
  cohort_store* store = nullptr;  ///< null: the runtime's own TCP store; else it lives until Program::run has returned
  /// Connects the ranks as the strategy does. Collective. Throws PeerFailed if a rank is missing at the deadline, and
  /// UserError if it is called twice.
  std::function<void()> connect;
};

/// Thrown through the program's body where ranks cannot be forked and the user did not choose a strategy that forks
/// them: Program executes them instead, and each runs the body.
struct RanksNeeded {
  std::string reason;
};

class Runtime {
 public:
  /// What is decided before the ranks connect. The references outlive the Runtime.
  struct Setup {
    const Options& options;
    host::PluginHost& plugins;
    const host::Selection& selection;
    const host::Topology& topology;
    host::Log& log;
    std::function<void(DistConnection&)> init_dist_connection{};  ///< the program's own; empty: the strategy's
  };

  /// Sets threads and device, and makes the rank, which is not connected yet.
  explicit Runtime(Setup setup);
  /// A process that forks the ranks of the job and stands in rank 0's place outside of them, without a connection.
  /// Its number of threads is left alone. Collectives and sessions throw UserError, or RanksNeeded.
  struct Unconnected {};
  Runtime(Setup setup, Unconnected);
  /// Makes the driver of a training; see make_driver.
  using DriverMaker =
      std::function<std::unique_ptr<StepDriver>(Runtime& runtime, std::span<torch::nn::Module* const> replicas,
                                                Optimizers optimizers, UnroundedWeights unrounded)>;
  /// Takes a rank of another kind than ConnectedRank, for tests.
  Runtime(Setup setup, std::unique_ptr<host::Rank> rank, DriverMaker make_driver);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  bool is_connected() const;
  /// In a fork of an unconnected process: this process is that rank from now on, also for the log.
  void become(const host::Topology& place);
  /// Opens the store and connects all ranks; logs the lines that say so. Collective. Throws UserError if ranks disagree
  /// about plugins, PeerFailed if a rank is missing at the deadline.
  void connect();
  /// Ranks are forked: from now on the program cannot begin again.
  void note_fork();
  /// Throws because of `reason`: RanksNeeded where the strategy is a default and nothing was forked yet, else
  /// UserError.
  [[noreturn]] void refuse_to_fork(const std::string& reason) const;

  /// Throws UserError if the strategy or one of its layers refuses this use (COHORT_USE_... of cohort/api/plugin.h), or
  /// the collective COHORT_USE_GRAPH. A loop of the program's own needs ranks that run all of it: UserError, or
  /// RanksNeeded, if unconnected.
  void require_use(int32_t use, int64_t value = 0) const;

  int rank() const { return topology().rank; }
  int world_size() const { return topology().world_size; }
  int local_rank() const { return topology().local_rank; }
  int local_world_size() const { return topology().local_world_size; }
  int node_rank() const { return topology().node_rank; }
  int num_nodes() const { return topology().num_nodes; }
  bool is_first() const { return rank() == 0; }
  const Options& options() const;
  const host::Selection& selection() const;
  const host::Topology& topology() const;
  host::Log& log() const;
  host::PluginHost& plugins() const;
  c10::Device device() const { return devices().front(); }  ///< of replica 0: where tensors of the program belong
  std::span<const c10::Device> devices() const;             ///< of this process, by replica
  int threads() const;                                      ///< intra-op threads of each rank
  /// Returns the guard for forward passes and losses of --precision=16-mixed and bf16-mixed; another one changes
  /// nothing.
  [[nodiscard]] Autocast autocast() const { return {device().type(), autocast_type(options().precision)}; }
  std::string collective() const;           ///< as reported: "shm"; "" with one rank, or unconnected
  std::vector<std::string> layers() const;  ///< of the strategy, lowest first, "base" included; none if unconnected

  // Collectives on the control communicator, in the order called, on every rank. With one rank they return at once.
  void barrier();
  void all_reduce_sum(std::span<double> values);
  void all_reduce_max(std::span<double> values);
  void broadcast(std::span<std::byte> data, int root);
  std::vector<std::string> all_gather(std::string_view text);  ///< by rank
  /// Returns whether every rank gives the same text. `purpose` names the comparison in reports of failures. Collective.
  bool is_same_on_all_ranks(std::string_view text, const std::string& purpose);
  /// Returns where every rank gives the same text; else all throw the same UserError: `problem` and a table of what
  /// differs.
  void agree(const std::string& topic, std::string_view text, std::string_view problem);

  /// Payload bytes that strategies have sent since the start, by the definition of `bytes_sent_per_step`.
  uint64_t bytes_sent() const;

  /// Tells this observer of what the rank communicates, from now on; null: nobody. For a profile. Local.
  void observe(host::FlightObserver* observer);

  /// Ends the communication together. Collective; nothing can be communicated afterwards.
  void shutdown();

  /// Begins a training of the model and its clones, for the Trainer and Session. Checks that all ranks have the same
  /// model, gives every rank rank 0's weights, and lays out the buckets. Collective. Throws UserError for optimizers
  /// that the strategy does not serve, and with a table where models differ. `unrounded`: what master weights begin
  /// with, but for elements that were changed since; others begin with the model's.
  std::unique_ptr<StepDriver> make_driver(std::span<torch::nn::Module* const> replicas, Optimizers optimizers,
                                          UnroundedWeights unrounded);
  /// Returns a graph for work of the device of replica 0. Throws UserError if nothing captures it.
  std::unique_ptr<StepGraph> make_graph() const;
  /// The connected state without tensors; for the report of a failure.
  host::ConnectedRank& connected_rank();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort
