#include <cohort/host/strategy_layers.hpp>

#include <algorithm>
#include <utility>

#include <cohort/api/host/buckets.h>
#include <cohort/host/crash_report.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_quotes.hpp>

#include "layers/strategy_slots.hpp"

namespace cohort::host {

struct StrategyLayers::Layer {
  std::string name;
  std::string variant;
  CheckedOptions options;
  cohort_strategy_vt table;
  cohort_strategy object{};
  bool created = false;
};

namespace {

bool fills_the_step(const LayerBlueprint& blueprint) {
  const cohort_strategy_vt table = full_size(*blueprint.vtable);
  return table.configure_model || table.begin_step || table.reduce_bucket || table.end_backward ||
         table.optimizer_step || table.end_step;
}

bool needs_still_gradients(const LayerBlueprint& blueprint) {
  return fills_the_step(blueprint) && !(full_size(*blueprint.vtable).flags & COHORT_STRATEGY_GRAD_IN_PLACE);
}

}  // namespace

StrategyLayers::StrategyLayers(std::vector<LayerBlueprint> blueprints, const cohort_strategy_vt& base, void* base_data,
                               const cohort_host* host)
    : inherit_the_step_(std::ranges::none_of(blueprints, fills_the_step)),
      follow_gradients_(std::ranges::none_of(blueprints, needs_still_gradients)) {
  const std::string variant = blueprints.empty() ? "" : blueprints.front().variant;
  layers_.push_back(std::make_unique<Layer>(Layer{"base", variant, {}, base}));
  layers_.front()->object.data = base_data;
  for (LayerBlueprint& blueprint : blueprints) {
    layers_.push_back(std::make_unique<Layer>(Layer{std::move(blueprint.name), std::move(blueprint.variant),
                                                    std::move(blueprint.options), completed(*blueprint.vtable)}));
  }
  cohort_strategy* below = nullptr;
  for (const auto& layer : layers_) {
    layer->object.vt = &layer->table;
    layer->object.super = below;
    layer->object.top = top();
    layer->object.host = host;
    below = &layer->object;
  }
  create();
}

void StrategyLayers::create() {
  try {
    for (const auto& layer : layers_) {
      if (const auto create_layer = layer->table.create) {
        const CheckedOptions& options = layer->options;
        const PluginCall call(HostObject::of(layer->object.host).log(), "strategy " + in_quotes(layer->name), "create");
        const cohort_status status =
            create_layer(&layer->object, layer->variant.c_str(), options.data(), options.size());
        HostObject::of(layer->object.host).check(status, "strategy " + in_quotes(layer->name));
      }
      layer->created = true;
    }
  } catch (...) {
    destroy();
    throw;
  }
}

void StrategyLayers::destroy() noexcept {
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (!(*layer)->created || !(*layer)->table.destroy) continue;
    const PluginCall call(HostObject::of((*layer)->object.host).log(), "strategy " + in_quotes((*layer)->name),
                          "destroy");
    (*layer)->table.destroy(&(*layer)->object);
  }
}

StrategyLayers::~StrategyLayers() {
  destroy();
}

cohort_strategy* StrategyLayers::top() const {
  return &layers_.back()->object;
}

std::vector<std::string> StrategyLayers::names() const {
  std::vector<std::string> names;
  for (const auto& layer : layers_) names.push_back(layer->name);
  return names;
}

std::vector<SlotOwner> slot_owners(std::span<const LayerBlueprint> blueprints) {
  std::vector<SlotOwner> owners;
  for_each_slot([&]<auto Slot>(std::string_view slot) { owners.push_back({slot, "base"}); });
  for (const LayerBlueprint& blueprint : blueprints) {
    const cohort_strategy_vt table = full_size(*blueprint.vtable);
    auto owner = owners.begin();
    for_each_slot([&]<auto Slot>(std::string_view) {
      if (table.*Slot) owner->layer = blueprint.name;
      ++owner;
    });
  }
  return owners;
}

}  // namespace cohort::host
