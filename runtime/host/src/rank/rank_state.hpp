// The parts of one rank, in the order of their construction. Services and the base strategy work on them.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <cohort/api/host/archive.h>
#include <cohort/host/buckets.hpp>
#include <cohort/host/connected_rank.hpp>
#include <cohort/host/device_port.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/rank_store.hpp>
#include <cohort/host/state_owners.hpp>
#include <cohort/host/strategy_layers.hpp>

#include "accelerator/accelerator.hpp"
#include "adaptation.hpp"
#include "layout_choice.hpp"
#include "lent_memory.hpp"
#include "rank_comms.hpp"
#include "rank_lanes.hpp"

namespace cohort::host {

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

/// The factors of learning rates that layers have set by optimizer/1; 1 if a layer has set none. [main] [step]
class LrFactors {
 public:
  struct Key {
    uint32_t phase;
    std::string layer;
    auto operator<=>(const Key&) const = default;
  };

  void set(const Key& key, double factor) { factors_[key] = factor; }
  /// Returns the product of the layers' factors for a phase.
  double product(uint32_t phase) const { return product_with({phase, ""}, 1.0); }
  /// Returns the product if `factor` stood in place of the one that this key has.
  double product_with(const Key& key, double factor) const {
    for (const auto& [other, value] : factors_) {
      if (other.phase == key.phase && other.layer != key.layer) factor *= value;
    }
    return factor;
  }

 private:
  std::map<Key, double> factors_;
};

/// The configured model and its way of averaging gradients. Between trainings the model is null.
struct Training {
  ModelPort* model = nullptr;
  LrFactors lr_factors{};
  StateOwners owners{};
  bool may_make_lanes = false;  // lane/1.create: in slots that all ranks enter together
  bool may_own = false;         // optimizer/1.own: until base shares the state
  LayoutChoice layout{};
  std::unique_ptr<StepEngine> engine{};
  std::optional<Adaptation> adaptation{};  // null if no gradients are communicated
  StrategyMetrics metrics{};
  std::optional<Archive> archive{};  // while save_state or load_state runs
};

struct RankState {
  /// Makes the parts. The layers of the strategy get services from `find_service` and inherit from `base`.
  RankState(RankSetup given, HostObject::Lookup find_service, const cohort_strategy_vt& base);
  ~RankState();

  RankSetup setup;
  cohort_dist_args dist_args;  // of init_dist_connection, where layers edit them
  HostObject host;
  Traffic traffic{};
  RankDevices devices;
  std::unique_ptr<Accelerator> accelerator;
  RankStore store;
  RankComms comms;
  RankLanes lanes;
  std::unique_ptr<Buckets> buckets;
  LentMemory lent_memory;
  Training training{};
  std::unique_ptr<StrategyLayers> layers;
  bool finished = false;  // shut down together: nothing can be waiting

  int rank() const { return setup.topology.rank; }
  int world_size() const { return setup.topology.world_size; }
  bool is_distributed() const { return world_size() > 1; }
  cohort_strategy* strategy() const { return layers->top(); }
  /// Compares a text among the ranks, see agree(). May be called again with the same topic. Collective.
  void agree_on(const std::string& topic, std::string_view text, std::string_view problem);
  /// Ends every later wait of the host after this time. Throws UserError unless it is above 0. Before lanes start.
  void limit_waits(int64_t timeout_ns);
  /// Makes a communicator of all ranks their world, and starts the default lane. Collective.
  void bind_world(cohort_comm* comm);
  /// Returns the calling thread's stream of the same device; for a stream without a device, the CPU's.
  cohort_stream stream_like(const cohort_stream& stream) const {
    if (stream.device_type == 0) return devices.current({});
    return devices.current({stream.device_type, stream.device_index});
  }
  /// Runs the host optimizer's step over the parameters of a phase that this rank steps.
  void step_optimizer(uint32_t phase);
};

/// Throws UserError unless every rank has the same model, optimizers and owners of state. Collective.
void agree_on_model(RankState& state);
/// Gives rank 0's state of the optimizers to all ranks; state that a rank owns stays its own. Collective.
void share_optimizer_state(RankState& state);
/// Gives rank 0's values of these tensors to all ranks, on the default lane's thread. Collective.
void broadcast(RankState& state, std::span<const cohort_tensor> tensors);

/// Returns the rank behind a host object.
inline RankState& rank_of(const cohort_host* host) {
  return *static_cast<RankState*>(HostObject::services_of(host));
}

}  // namespace cohort::host
