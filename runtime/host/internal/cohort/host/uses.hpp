// Asks `supports` of components what they can do, and puts the answers together.
//
// The runtime keeps no table of plugins: it knows the uses, and what holds if nobody answers. `supports` is plugin code
// that runs outside of a run. [main] thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <cohort/api/plugin.h>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::host {

/// A use of strategies as people read it.
struct UseText {
  int32_t use;               ///< COHORT_USE_...
  std::string_view name;     ///< heading of a column: "nodes"
  std::string_view meaning;  ///< after "cannot": "train on several nodes"
};
/// The uses in which strategies differ, in the order of the table.
std::span<const UseText> uses();

/// One use of a job; see cohort_query. A number is 0 if it is not known.
struct UseQuery {
  int32_t use = 0;
  int64_t value = 0;
  int world_size = 0;
  int num_nodes = 0;
  int local_world_size = 0;
  int replicas = 0;
};

struct Answer {
  int32_t answer = COHORT_ANSWER_UNKNOWN;
  std::string who{};  ///< for NO: "strategy 'dp'", "the runtime"
  std::string why{}, fix{};
  std::string flag{};  ///< for NO: by which the user chose it: "strategy", "layer"

  bool is_no() const { return answer == COHORT_ANSWER_NO; }
  /// "strategy 'dp' cannot train on 2 nodes: WHY"; `use` is "train on 2 nodes".
  std::string reason(std::string_view use) const;
  /// The same with "; FIX".
  std::string text(std::string_view use) const;
};

/// Asks the strategy, its ancestors and the free layers: the topmost NO, else YES if one says so; to uses of which
/// plugin.h says it UNKNOWN is NO. UNKNOWN if the strategy is not installed. Throws what opening the plugins and
/// checking their options throws, and PluginRefused for an answer that is none.
Answer ask_strategy(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                    const UseQuery& query);

/// Asks whether the collective can connect this group with tensors of this device. `group.use` and `value` are ignored.
Answer ask_collective(PluginHost& plugins, const cohort_component& component, const CollectiveSpec& spec,
                      int32_t device_type, UseQuery group);
/// Asks whether it may be chosen although the user names none.
Answer ask_if_chosen_unnamed(PluginHost& plugins, const cohort_component& component, const CollectiveSpec& spec);

Answer ask_accelerator(PluginHost& plugins, const std::string& name, const UseQuery& query);

/// Throws UserError if the strategy, one of its layers or the runtime refuses the use of the table.
void require_use(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                 const UseQuery& query);
/// Throws UserError if one of them, or the collective that several ranks have, refuses to have its steps captured and
/// replayed. `job.use` and `value` are ignored.
void require_graphs(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> layers,
                    const CollectiveSpec& collective, UseQuery job);

}  // namespace cohort::host
