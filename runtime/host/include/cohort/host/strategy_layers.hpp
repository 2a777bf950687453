// A strategy as a stack of layers, lowest first: `base`, the chosen strategy's ancestors, itself, and the free layers.
//
// The stack owns the completed tables and the cohort_strategy objects of all layers; it is made once per rank. Slots
// are called on top() by the runtime. Null slots of a plugin are filled with forwarders to the layer below.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/strategy.h>
#include <cohort/host/option_table.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::host {

/// One layer before it is instantiated: what the plugin declares and the options that go to it.
struct LayerBlueprint {
  std::string name;
  const cohort_strategy_vt* vtable;  // the plugin's own, with null slots
  CheckedOptions options;
  std::string variant;
};

/// Opens the strategy, its ancestors and the free layers, checks variant and options, and gives the layers lowest
/// first, without base. An option goes to the topmost layer that declares it, the variant to all.
std::vector<LayerBlueprint> resolve_layers(PluginHost& plugins, const Spec& strategy,
                                           std::span<const Spec> free_layers);

/// Options that a strategy takes, with those of its ancestors, nearest first.
std::vector<cohort_option> inherited_options(PluginHost& plugins, const cohort_component& strategy);
/// Variants of a strategy with those of its ancestors.
std::vector<std::string> inherited_variants(PluginHost& plugins, const cohort_component& strategy);

class StrategyLayers {
 public:
  /// `base` must have every overridable slot filled and gets `base_data` as its data. Calls `create` of each layer that
  /// has one, lowest first; where one fails, destroys those before it and throws with the plugin's message. `host`
  /// comes from a HostObject and is given to every layer.
  StrategyLayers(std::vector<LayerBlueprint> blueprints, const cohort_strategy_vt& base, void* base_data,
                 const cohort_host* host);
  ~StrategyLayers();  // destroys the layers, highest first
  StrategyLayers(const StrategyLayers&) = delete;
  StrategyLayers& operator=(const StrategyLayers&) = delete;

  cohort_strategy* top() const;
  /// Names of the layers, lowest first, "base" included.
  std::vector<std::string> names() const;
  /// True where no plugin fills a slot that runs between configure_model and end_step: none looks at gradients.
  bool inherit_the_step() const { return inherit_the_step_; }
  /// True where no layer expects GRAD at the same place in every step.
  bool follow_gradients() const { return follow_gradients_; }

 private:
  struct Layer;
  std::vector<std::unique_ptr<Layer>> layers_;
  bool inherit_the_step_, follow_gradients_;

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
