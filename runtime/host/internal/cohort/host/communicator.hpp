// Collectives and communicators as the host holds them: completed tables, owned comms, counted bytes.
//
// A Collective belongs to one rank; the communicators of a run belong to a CommunicatorSet. Operations on one
// communicator are made by one thread at a time (its lane); opening, splitting and closing happen on the main thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cohort/api/accelerator.h>
#include <cohort/api/collective.h>
#include <cohort/host/host_object.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::host {

class ConnectedGroups;
class Twins;
class Staging;

/// Says how a collective serves the two kinds of memory that communicators take.
enum class Moves {
  kGiven,         ///< what it is given: tensors are where it takes them
  kCpuMemory,     ///< CPU memory only: device memory is staged
  kDeviceMemory,  ///< device memory only: CPU memory goes to a twin group
};

/// Opens a collective and those that it is made of, so that wrong names and options are known before anything connects.
void open_collective(PluginHost& plugins, const Spec& spec);

/// A collective plugin, created for one rank. Its table is complete: operations that the plugin leaves out are composed
/// from `exchange`, and device memory is staged where it takes the host's only.
class Collective : private cohort_collective {
 public:
  /// How the host uses the collective.
  struct Use {
    const cohort_host* door;     ///< the cohort_host that the plugin gets, one of the HostObject beside
    bool deterministic = false;  ///< sums are composed, in rank order, unless the plugin takes them so itself
    Moves moves = Moves::kGiven;
    cohort_accelerator* device = nullptr;  ///< its memory is staged; may be null for kGiven
  };
  Collective(const cohort_component& component, const CheckedOptions& options, HostObject& host, const Use& use);
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  static Collective& of(cohort_collective* c) { return static_cast<Collective&>(*c); }

  cohort_collective* get() { return this; }
  /// "shm"; "hier(shm,gloo)" with what it is made of.
  const std::string& name() const { return name_; }
  HostObject& host() const { return host_; }
  /// Returns the job's number of each rank of the group; empty: as in the group.
  const std::vector<int>& job_ranks(const cohort_comm& comm) const;
  /// The plugin's own table; slots may be null.
  const cohort_collective_vt& native() const { return native_; }
  /// Fills `comm` and connects the ranks of a group. `args.store` outlives this object. A failure keeps the job's
  /// numbers of the ranks that were waited for.
  cohort_status connect(const cohort_connect_args& args, cohort_comm& comm);
  /// Returns how communicators were connected, to split them; null if the plugin splits them itself.
  ConnectedGroups* groups() const { return groups_.get(); }
  /// Null if device memory is not staged.
  Staging* staging() const { return staging_.get(); }
  /// Null unless it moves device memory only.
  Twins* twins() const { return twins_.get(); }
  /// Operations of all communicators have to be called in one order on all ranks.
  bool needs_one_order() const { return (native_.flags & COHORT_COLLECTIVE_ONE_ORDER) != 0; }

 private:
  std::string name_;
  HostObject& host_;
  cohort_collective_vt native_, table_;
  std::vector<int> job_ranks_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Twins> twins_;
  std::unique_ptr<ConnectedGroups> groups_;
};

/// Payload bytes by the algorithm's definition, per rank: what `bytes_sent_per_step` reports.
class Traffic {
 public:
  void count_all_reduce(uint64_t nbytes, int size);     ///< 2 (n-1)/n x nbytes
  void count_one_way(uint64_t whole_nbytes, int size);  ///< (n-1)/n x nbytes: broadcast, reduce, all_gather, ...
  void count_sent(uint64_t nbytes) { sent_ += nbytes; }
  uint64_t sent() const { return sent_; }
  void reset() { sent_ = 0; }

 private:
  std::atomic<uint64_t> sent_{0};
};

/// Whose a communicator is, and on which lane its operations run.
struct CommPlace {
  const cohort_host* owner = nullptr;  ///< the component that made it; null: the host
  uint32_t lane = 0;
};

/// All communicators of one rank, and the collectives that they belong to. The collectives get the accelerator's
/// kernels, and comm/1 for those that they are made of; its operations run on the calling thread, uncounted.
class CommunicatorSet {
 public:
  /// Which collectives the set opens, and how.
  struct Choice {
    Spec spec;  ///< may be empty (one rank)
    bool deterministic = false;
    /// Names of collectives, in order of preference, that may move CPU memory beside one that moves device memory only.
    std::string cpu_collectives = {};
    /// The keys of groups are derived from it. Without it, rank 0 of each group draws the group's key, and the others
    /// read it from the group's store.
    std::optional<Key> run_key = std::nullopt;
    /// Indices of this rank's devices, if several hold parts of a model. All ranks have as many.
    std::vector<int32_t> devices = {};
  };
  /// The collectives get `host`; it outlives the set, as `plugins` and `accelerator` do. `accelerator` may be null
  /// (CPU).
  CommunicatorSet(PluginHost& plugins, HostObject& host, Choice choice, cohort_accelerator* accelerator = nullptr);
  ~CommunicatorSet();
  CommunicatorSet(const CommunicatorSet&) = delete;
  CommunicatorSet& operator=(const CommunicatorSet&) = delete;

  /// Opens the plugins that the world of this many ranks needs, so that mistakes are known before anything connects.
  void open_plugins(int world_size, int num_nodes, int32_t device_type);
  /// Makes the cohort_host of a collective.
  const cohort_host* door_for(const std::string& collective);
  /// Returns a table of the accelerator's kernels for collectives, or null.
  const void* kernels(int32_t device_type, const char* id) const;

  /// A root communicator of a group, on a part of the group's store that belongs to it alone. Null spec: the collective
  /// that was chosen. Collective over the group. Throws what opening throws, and with the plugin's message.
  cohort_comm* open(const char* spec, const cohort_connect_args& group, const cohort_host* owner = nullptr);
  /// Makes the communicator of one rank alone.
  cohort_comm* open_alone(const cohort_host* owner = nullptr);
  /// A part of `comm`; null where color < 0. Collective over `comm`.
  cohort_comm* split(cohort_comm* comm, int color, int key, CommPlace place = {});
  /// Takes a communicator over from the component that opened it.
  void adopt(cohort_comm* comm);
  /// Throws UserError while parts of it are open.
  void close(cohort_comm* comm);
  /// Running and later operations on a communicator, or on all, return soon. Any thread.
  void abort(cohort_comm* comm);
  void abort();
  /// Memory of the root of `comm`; ordinary memory if the collective has none. Collective over the root.
  void* alloc(cohort_comm* comm, uint64_t nbytes);
  void release(cohort_comm* comm, void* memory);

  /// Returns whether one of the collectives in use needs one order of the operations of all lanes. Any thread.
  bool needs_one_order() const { return needs_one_order_; }
  /// Returns the place of a communicator that `caller` may use: one of its own or, unless `must_be_own`, of the host.
  /// Throws UserError for any other pointer, naming the caller and `call`. Any thread.
  CommPlace place_for(const cohort_host* caller, const cohort_comm* comm, const char* call,
                      bool must_be_own = false) const;

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  PluginHost& plugins_;
  HostObject& host_;
  Choice choice_;
  cohort_accelerator* accelerator_;
  bool said_staging_ = false;
  std::atomic<bool> needs_one_order_{false};
  mutable std::mutex mutex_;  // of entries_ and by_comm_; held by nobody who calls a plugin
  std::recursive_mutex end_;  // no communicator is closed while it is aborted; a plugin's abort may abort its parts
  Entries entries_;           // in the order made: closed in reverse
  Entries unconnected_;       // what a failed connect may have left behind refers to them
  std::unordered_map<const cohort_comm*, Entries::iterator> by_comm_;

  Entry& entry_of(const cohort_comm* comm);
  bool moves_device_memory_only(const cohort_component& component, const Spec& spec,
                                const cohort_connect_args& group) const;
  Moves moves_of(const cohort_component& component, const Spec& spec, const cohort_connect_args& group) const;
  const cohort_component& twin_component(const std::string& device_collective, const cohort_connect_args& group) const;
  void connect(Entry& entry, const cohort_component& component, const Spec& spec, const cohort_connect_args& group,
               Moves moves);
  void connect_twin(Entry& entry, const cohort_component& component, const cohort_connect_args& group);
  void connect_other_devices(Entry& entry, const cohort_component& component, const Spec& spec,
                             const cohort_connect_args& group);
  /// Connects the collective of an entry with the group's key.
  cohort_status connect_with_key(Entry& entry, cohort_connect_args args);
  void split(Entry& parent, Entry& entry, int color, int key);
  /// Closes what of the communicator and its twins has connected.
  void close(Entry& entry);
  static void for_all(Entry& entry, const std::function<void(cohort_comm&)>& visit);
  /// Connects a communicator and keeps it, or returns null if `connect_it` says that this rank gets none.
  cohort_comm* make(CommPlace place, const std::function<bool(Entry&)>& connect_it);
  cohort_comm* keep(Entries::iterator made);
};

/// Runs an operation and counts its bytes; `traffic` may be null (control).
cohort_status run_all_reduce(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_reduce(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_broadcast(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_all_gather(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_reduce_scatter(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_all_to_all(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic);
cohort_status run_exchange(cohort_comm* comm, const cohort_exchange_args& args, Traffic* traffic);
cohort_status run_barrier(cohort_comm* comm);

}  // namespace cohort::host
