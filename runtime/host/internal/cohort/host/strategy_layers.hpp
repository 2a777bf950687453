// A strategy as a stack of layers, lowest first: `base`, the chosen strategy's ancestors, itself, and the free layers.
//
// The stack owns the completed tables and the cohort_strategy objects of all layers; it is made once per rank. Slots
// are called on top() by the runtime. Null slots of a plugin are filled with forwarders to the layer below.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/strategy.h>
#include <cohort/host/option_table.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>
#include <cohort/host/strategy_state.hpp>

namespace cohort::host {

class HostObject;

/// One layer before it is instantiated: what the plugin declares and the options that go to it.
struct LayerBlueprint {
  std::string name;
  const cohort_strategy_vt* vtable;  // the plugin's own, with null slots
  CheckedOptions options;
  std::string variant;
  std::string version{};  ///< of the plugin
};

/// Opens the strategy, its ancestors and the free layers, checks variant and options, and gives the layers lowest
/// first, without base. An option goes to the topmost layer that declares it, the variant to all.
std::vector<LayerBlueprint> resolve_layers(PluginHost& plugins, const Spec& strategy,
                                           std::span<const Spec> free_layers);

/// Options that a strategy takes, with those of its ancestors, nearest first.
std::vector<cohort_option> inherited_options(PluginHost& plugins, const cohort_component& strategy);
/// Variants of a strategy with those of its ancestors.
std::vector<std::string> inherited_variants(PluginHost& plugins, const cohort_component& strategy);

/// Returns what a layer has damaged that is not its own, or "". Called before and after each slot of each layer.
using Inspection = std::function<std::string()>;

class StrategyLayers {
 public:
  /// `base` must have every overridable slot filled and gets `base_data` as its data. Calls `create` of each layer that
  /// has one, lowest first; if one fails, destroys those before it and throws with the plugin's message. Every layer
  /// gets a cohort_host of its own from `host`. A slot fails if `inspect`, which may be empty, finds damage; the
  /// message names the layer.
  StrategyLayers(std::vector<LayerBlueprint> blueprints, const cohort_strategy_vt& base, void* base_data,
                 HostObject& host, Inspection inspect = {});
  ~StrategyLayers();  // destroys the layers, highest first
  StrategyLayers(const StrategyLayers&) = delete;
  StrategyLayers& operator=(const StrategyLayers&) = delete;

  cohort_strategy* top() const;
  /// Throws PluginRefused if a layer claims to have an extension that nobody has defined.
  void check_extensions() const;
  /// Calls configure_model of the topmost layer.
  cohort_status configure_model();
  /// Returns the last plugin's layer that the latest configure_model has entered, or "".
  const std::string& last_configured() const { return last_configured_; }
  /// Calls plan_buckets of the topmost layer. The result has the flags of all layers, also of those below one that
  /// cleared them, and the least common multiple of their alignments. Afterwards reduce_bucket of a layer that has
  /// dropped the gradients, and of those below it, does nothing; no slot may be running.
  cohort_status plan_buckets(cohort_bucket_plan& plan);
  /// In plan_buckets: the layer with this cohort_host wants the gradients.
  void want_gradients(const cohort_host* host);
  /// In plan_buckets: the layer with this cohort_host withdraws what the layers below it, and itself, have wanted.
  void drop_gradients(const cohort_host* host);
  /// Returns whether a layer has dropped the gradients and does not reduce them itself, so that nobody averages them;
  /// since the last plan_buckets.
  bool have_dropped_gradients() const;
  /// Returns whether a layer wants the gradients that none above it has dropped; since the last plan_buckets.
  bool want_gradients() const;
  /// Names of the layers, lowest first, "base" included.
  std::vector<std::string> names() const;
  /// Returns the versions of the layers' plugins; "base" has none.
  StrategyState::Versions versions() const;
  /// Returns whether no plugin fills plan_buckets or a slot of the step: then none looks at gradients.
  bool inherit_the_step() const { return inherit_the_step_; }
  /// Returns whether a layer leaves each rank the gradients of the parameters that it owns alone.
  bool have_partial_gradients() const;
  /// Returns whether a layer wants cohort_step::loss.
  bool read_the_loss() const;

 private:
  struct Layer;
  template <auto Slot>
  struct Inspected;
  HostObject& host_;
  Inspection inspect_;
  std::string last_configured_;
  std::vector<std::unique_ptr<Layer>> layers_;
  bool inherit_the_step_;
  cohort_bucket_plan combined_plan_{};  // of the layers that have returned from plan_buckets

  static cohort_status plan_layer(cohort_strategy* s, cohort_bucket_plan* plan) noexcept;
  static cohort_status configure_layer(cohort_strategy* s) noexcept;
  static cohort_strategy* above(const cohort_strategy* s);
  void inspect_slots();
  bool finds_damage(cohort_strategy* s, const cohort_strategy* by, std::string_view slot) noexcept;
  Layer& layer_of(const cohort_host* host) const;
  bool have_flag(uint32_t flag) const;
  void stop_reductions();
  void create();
  void destroy() noexcept;
};

/// One line of `cohort plugins info`: a slot and the layer that fills it.
struct SlotOwner {
  std::string_view slot;
  std::string layer;
};
/// For every overridable slot, in the order of the vtable. `create` and `destroy` are left out: each layer has its own.
std::vector<SlotOwner> slot_owners(std::span<const LayerBlueprint> blueprints);

}  // namespace cohort::host
