// Everything that one rank holds, in the order in which it is made; shared by the services and the base strategy.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/api/host/archive.h>
#include <cohort/api/host/comm.h>
#include <cohort/api/host/lane.h>
#include <cohort/api/host/memory.h>
#include <cohort/api/host/model.h>
#include <cohort/api/host/stream.h>
#include <cohort/host/buckets.hpp>
#include <cohort/host/communicator.hpp>
#include <cohort/host/device_port.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/lane.hpp>
#include <cohort/host/rank_runtime.hpp>
#include <cohort/host/state_owners.hpp>
#include <cohort/host/strategy_layers.hpp>

#include "accelerator/accelerator.hpp"
#include "adaptation.hpp"
#include "layout_choice.hpp"

namespace cohort::host {

/// The communicators that belong to one user of them.
struct RoleComms {
  cohort_comm* world = nullptr;
  cohort_comm* node = nullptr;
  cohort_comm* leaders = nullptr;
};

/// A thread that communicates, with what belongs to it alone.
struct RankLane {
  std::string name;
  RoleComms comms;
  std::unique_ptr<Lane> thread;  // null before connect
};

/// The state that archive/1 works on.
struct Archive {
  enum class Use { kSave, kRestore };
  StrategyState& state;
  Use use;
};

/// The numbers that strategies have set by metrics/1 since the training began; any thread sets it.
struct StrategyMetrics {
  std::mutex mutex;
  std::map<std::string, double> values;
};

/// Memory that components have from memory/1, so that each gives back its own, and the end gives back the rest.
/// Threads: any.
class LentMemory {
 public:
  explicit LentMemory(RankDevices devices) : devices_(devices) {}
  ~LentMemory() { release_all(); }
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  void* alloc(const cohort_host* owner, Device device, uint64_t nbytes);
  /// Throws UserError for memory that the caller does not have.
  void release(const cohort_host* owner, void* memory);
  void release_all() noexcept;

 private:
  struct Piece {
    Device device;
    const cohort_host* owner;
  };
  RankDevices devices_;
  std::mutex mutex_;
  std::map<void*, Piece> pieces_;
};

struct RankState {
  explicit RankState(RankSetup given);
  ~RankState();

  RankSetup setup;
  HostObject host;
  Traffic traffic;
  RankDevices devices;
  std::unique_ptr<Accelerator> accelerator;
  std::unique_ptr<Store> own_store;  // the host's, where no plugin gave one
  std::unique_ptr<AbiStore> own_abi_store;
  cohort_store* store = nullptr;
  std::unique_ptr<PrefixedStore> job_store;  // of this run
  bool has_met = false;                      // all ranks have come and fit together
  std::function<void()> when_met;            // may be empty
  std::unique_ptr<CommunicatorSet> comms;
  cohort_comm* root = nullptr;                   // bound as world
  cohort_comm* control = nullptr;                // metrics, barriers, votes: nothing else touches it
  cohort_comm* user = nullptr;                   // made at its first use
  std::vector<std::unique_ptr<RankLane>> lanes;  // the default one first
  std::unique_ptr<Buckets> buckets;
  LentMemory lent_memory;
  ModelPort* model = nullptr;
  StateOwners owners;    // of the model
  bool may_own = false;  // optimizer/1.own: until base shares the state
  LayoutChoice layout;
  std::unique_ptr<StepEngine> engine;
  std::optional<Adaptation> adaptation;  // where gradients are communicated
  std::unique_ptr<StrategyLayers> layers;
  StrategyMetrics metrics;
  std::optional<Archive> archive;  // while save_state or load_state runs
  uint64_t agreements = 0;         // the same on every rank: makes keys of the store unique
  bool finished = false;           // shut down together: nothing can be waiting

  int rank() const { return setup.topology.rank; }
  int world_size() const { return setup.topology.world_size; }
  bool is_distributed() const { return world_size() > 1; }
  bool has_replicas() const { return setup.selection.replicas > 1; }
  cohort_strategy* strategy() const { return layers->top(); }
  std::string who() const;
  /// Runs the first agreement of the ranks: on the place of every rank in the job, and on a text. See meeting.hpp.
  void meet(const std::string& topic, std::string_view text, std::string_view problem);
  /// agree() among the ranks; may be called again with the same topic.
  void agree_on(const std::string& topic, std::string_view text, std::string_view problem);
  bool is_same_on_all_ranks(uint64_t value, const std::string& purpose);
  /// Opens the host's store where `args` has none, and remembers which store is used.
  void use_store(cohort_dist_args& args);
  /// Remembers the store that a layer gave.
  void adopt_store(cohort_store* given);
  /// The communicator of all ranks, with the chosen collective.
  cohort_comm* connect_world(const cohort_dist_args& args);
  void bind_world(cohort_comm* comm);
  /// Makes the world of one rank: strategies find one whatever the number of ranks.
  void bind_alone();
  /// A part of the root communicator, for the flight recorder under this name. Collective.
  cohort_comm* named_part(const std::string& name, int color, uint32_t lane = 0);
  RoleComms split_roles(const std::string& name, uint32_t lane);
  /// Throws UserError while a lane has tasks: `call` needs all ranks at the same point.
  void require_idle_lanes(const std::string& call) const;
  void start_lane();
  /// Keeps this thread, and what it starts, on the cores near the rank's first device.
  void stay_near_device();
  /// Makes the rank's device the calling thread's current one.
  void select_device();
  std::unique_ptr<Lane> make_lane(const std::string& name);
  RankLane& default_lane() const { return *lanes.front(); }
  /// The lane whose thread is calling, or null.
  RankLane* current_lane() const;
  /// By name; made where it is not there. Collective.
  uint32_t lane_named(const std::string& name);
  /// Rank `root`'s bytes for all, over `control`.
  void broadcast(void* data, uint64_t nbytes, int root, const char* purpose = "broadcast");
  /// Rank 0's text for all.
  void broadcast(std::string& text, const char* purpose);
  /// Runs an operation on `control`.
  template <class Operation>
  void on_control(const char* purpose, Operation&& operation) {
    host.recorder().set_purpose(control, std::make_shared<const std::string>(purpose));
    host.check(operation(control), purpose);
  }
  /// Returns zero-filled memory for buckets, from the collective if it has some there.
  BucketMemory allocate(Device device, uint64_t nbytes);
  /// Gives memory back to the collective of a communicator, once the rank's devices have done their work.
  void release_memory(cohort_comm* comm, void* memory);
  /// Returns the calling thread's stream of the device that a stream belongs to; one of no device is the CPU's.
  cohort_stream stream_like(const cohort_stream& stream) const {
    if (stream.device_type == 0) return devices.current({});
    return devices.current({stream.device_type, stream.device_index});
  }
  /// The host optimizer's step over what this rank steps of a phase.
  void step_optimizer(uint32_t phase);
  /// Calls save_state or load_state of the strategy, which may use archive/1.
  void with_archive(StrategyState& strategy_state, Archive::Use use);
};

/// Throws UserError if there is no stream for memory of a device.
void check_stream(const cohort_stream& stream, const char* call);

/// Service tables of a rank by id; null for an unknown one.
const void* find_service(std::string_view id);
const cohort_archive_1& archive_service();
const cohort_comm_1& comm_service();
const cohort_optimizer_1& optimizer_service();
/// Throws UserError unless every rank has the same model, optimizers and owners of state. Collective.
void agree_on_model(RankState& state);
/// Rank 0's state of the optimizers for all ranks; what a rank owns is its own. Collective.
void share_optimizer_state(RankState& state);
/// Rank 0's values of these tensors for all ranks, on lane 0's thread. Collective.
void broadcast(RankState& state, std::span<const cohort_tensor> tensors);
const cohort_lane_1& lane_service();
const cohort_stream_1& stream_service();
const cohort_memory_1& memory_service();
/// The rank behind a host object.
inline RankState& rank_of(const cohort_host* host) {
  return *static_cast<RankState*>(HostObject::services_of(host));
}

/// The slots of the bottom layer; its data is the RankState (null is enough for plan).
const cohort_strategy_vt& base_strategy();

}  // namespace cohort::host
