#include <cohort/host/strategy_layers.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_quotes.hpp>

#include "layers/strategy_slots.hpp"

namespace cohort::host {

struct StrategyLayers::Layer : cohort_strategy {
  Layer(StrategyLayers& owner, std::string name_, std::string variant_, CheckedOptions options_, std::string version_,
        const cohort_strategy_vt& table_)
      : cohort_strategy{},
        stack(owner),
        name(std::move(name_)),
        variant(std::move(variant_)),
        options(std::move(options_)),
        version(std::move(version_)),
        table(table_) {}

  StrategyLayers& stack;
  std::string name, variant;
  CheckedOptions options;
  std::string version;
  cohort_strategy_vt table;
  decltype(cohort_strategy_vt::plan_buckets) own_plan_buckets = nullptr;  // the plugin's, if it has one
  bool created = false;
};

namespace {

bool fills_the_step(const LayerBlueprint& blueprint) {
  const cohort_strategy_vt table = full_size(*blueprint.vtable);
  return table.plan_buckets || table.begin_step || table.reduce_bucket || table.end_backward || table.clip_gradients ||
         table.optimizer_step || table.end_step;
}

}  // namespace

StrategyLayers::StrategyLayers(std::vector<LayerBlueprint> blueprints, const cohort_strategy_vt& base, void* base_data,
                               HostObject& host)
    : host_(host), inherit_the_step_(std::ranges::none_of(blueprints, fills_the_step)) {
  const std::string variant = blueprints.empty() ? "" : blueprints.front().variant;
  layers_.push_back(std::make_unique<Layer>(*this, "base", variant, CheckedOptions{}, "", base));
  layers_.front()->data = base_data;
  for (LayerBlueprint& blueprint : blueprints) {
    layers_.push_back(std::make_unique<Layer>(*this, std::move(blueprint.name), std::move(blueprint.variant),
                                              std::move(blueprint.options), std::move(blueprint.version),
                                              completed(*blueprint.vtable)));
    Layer& layer = *layers_.back();
    layer.own_plan_buckets = full_size(*blueprint.vtable).plan_buckets;
    if (layer.own_plan_buckets) layer.table.plan_buckets = plan_layer;
  }
  cohort_strategy* below = nullptr;
  for (const auto& layer : layers_) {
    layer->struct_size = sizeof(cohort_strategy);
    layer->vt = &layer->table;
    layer->below = below;
    layer->top = top();
    layer->host = host.get_for(layer->name);
    below = layer.get();
  }
  create();
}

bool StrategyLayers::have_partial_gradients() const {
  return std::ranges::any_of(
      layers_, [](const auto& layer) { return (layer->table.flags & COHORT_STRATEGY_PARTIAL_GRADIENTS) != 0; });
}

cohort_status StrategyLayers::plan_buckets(cohort_bucket_plan& plan) {
  combined_plan_ = {};
  combined_plan_.alignment = 1;
  const cohort_status status = top()->vt->plan_buckets(top(), &plan);
  plan.flags |= combined_plan_.flags;
  plan.alignment = std::lcm(combined_plan_.alignment, std::max<uint64_t>(1, plan.alignment));
  return status;
}

// Stands in for a plugin's slot, so that what a lower layer has asked for holds whatever an upper one leaves of it.
cohort_status StrategyLayers::plan_layer(cohort_strategy* s, cohort_bucket_plan* plan) noexcept {
  const Layer& layer = *static_cast<Layer*>(s);
  const cohort_status status = layer.own_plan_buckets(s, plan);
  cohort_bucket_plan& combined = layer.stack.combined_plan_;
  combined.flags |= plan->flags;
  combined.alignment = std::lcm(combined.alignment, std::max<uint64_t>(1, plan->alignment));
  return status;
}

void StrategyLayers::create() {
  try {
    for (const auto& layer : layers_) {
      if (const auto create_layer = layer->table.create) {
        const CheckedOptions& options = layer->options;
        for (const std::string& warning : options.warnings) HostObject::of(layer->host).log().warning(warning);
        const PluginCall call(host_.log(), "strategy " + in_quotes(layer->name), "create");
        const cohort_status status = create_layer(layer.get(), layer->variant.c_str(), options.data(), options.size());
        host_.check(status, "strategy " + in_quotes(layer->name));
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
    const PluginCall call(host_.log(), "strategy " + in_quotes((*layer)->name), "destroy");
    (*layer)->table.destroy(layer->get());
  }
}

StrategyLayers::~StrategyLayers() {
  destroy();
}

cohort_strategy* StrategyLayers::top() const {
  return layers_.back().get();
}

std::vector<std::string> StrategyLayers::names() const {
  std::vector<std::string> names;
  for (const auto& layer : layers_) names.push_back(layer->name);
  return names;
}

StrategyState::Versions StrategyLayers::versions() const {
  StrategyState::Versions versions;
  for (const auto& layer : layers_) {
    if (layer->below) versions.emplace(layer->name, layer->version);
  }
  return versions;
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
