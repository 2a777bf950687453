#include <cohort/host/strategy_layers.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/sdk/own_copy.hpp>

#include "host_object/guarded.hpp"
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
  decltype(cohort_strategy_vt::plan_buckets) own_plan_buckets = nullptr;        // the plugin's, if it has one
  decltype(cohort_strategy_vt::configure_model) own_configure_model = nullptr;  // the same
  bool extends = false;                                                         // the plugin has a get_extension
  cohort_strategy_vt uninspected{};  // if layers are inspected: the slots that `table` calls
  decltype(cohort_strategy_vt::reduce_bucket) reduce_bucket = nullptr;  // of the completed table
  bool wants_gradients = false, drops_gradients = false;                // since the last plan
  bool created = false;
};

namespace {

bool fills_the_step(const LayerBlueprint& blueprint) {
  const cohort_strategy_vt table = sdk::own_copy(*blueprint.vtable);
  return table.plan_buckets || table.begin_step || table.reduce_bucket || table.end_backward || table.clip_gradients ||
         table.optimizer_step || table.end_step;
}

cohort_status no_reduction(cohort_strategy*, const cohort_step*, const cohort_bucket*) noexcept {
  return COHORT_OK;
}

}  // namespace

StrategyLayers::StrategyLayers(std::vector<LayerBlueprint> blueprints, const cohort_strategy_vt& base, void* base_data,
                               HostObject& host, Inspection inspect)
    : host_(host), inspect_(std::move(inspect)), inherit_the_step_(std::ranges::none_of(blueprints, fills_the_step)) {
  const std::string variant = blueprints.empty() ? "" : blueprints.front().variant;
  layers_.push_back(std::make_unique<Layer>(*this, "base", variant, CheckedOptions{}, "", base));
  layers_.front()->data = base_data;
  for (LayerBlueprint& blueprint : blueprints) {
    layers_.push_back(std::make_unique<Layer>(*this, std::move(blueprint.name), std::move(blueprint.variant),
                                              std::move(blueprint.options), std::move(blueprint.version),
                                              completed(*blueprint.vtable)));
    Layer& layer = *layers_.back();
    const cohort_strategy_vt own = sdk::own_copy(*blueprint.vtable);
    layer.own_plan_buckets = own.plan_buckets;
    if (layer.own_plan_buckets) layer.table.plan_buckets = plan_layer;
    layer.own_configure_model = own.configure_model;
    if (layer.own_configure_model) layer.table.configure_model = configure_layer;
    layer.extends = own.get_extension != nullptr;
  }
  if (inspect_) inspect_slots();
  cohort_strategy* below = nullptr;
  for (const auto& layer : layers_) {
    layer->struct_size = sizeof(cohort_strategy);
    layer->vt = &layer->table;
    layer->below = below;
    layer->top = top();
    layer->host = host.get_for(layer->name);
    layer->reduce_bucket = layer->table.reduce_bucket;
    below = layer.get();
  }
  create();
}

bool StrategyLayers::have_flag(uint32_t flag) const {
  return std::ranges::any_of(layers_, [flag](const auto& layer) { return (layer->table.flags & flag) != 0; });
}

bool StrategyLayers::have_partial_gradients() const {
  return have_flag(COHORT_STRATEGY_PARTIAL_GRADIENTS);
}

bool StrategyLayers::read_the_loss() const {
  return have_flag(COHORT_STRATEGY_READS_LOSS);
}

cohort_status StrategyLayers::plan_buckets(cohort_bucket_plan& plan) {
  combined_plan_ = {};
  combined_plan_.alignment = 1;
  for (const auto& layer : layers_) layer->wants_gradients = layer->drops_gradients = false;
  const cohort_status status = top()->vt->plan_buckets(top(), &plan);
  stop_reductions();
  plan.flags |= combined_plan_.flags;
  plan.alignment = std::lcm(combined_plan_.alignment, std::max<uint64_t>(1, plan.alignment));
  return status;
}

StrategyLayers::Layer& StrategyLayers::layer_of(const cohort_host* host) const {
  const auto found = std::ranges::find(layers_, host, [](const auto& layer) { return layer->host; });
  if (found == layers_.end()) throw UserError("buckets/1 was called with the cohort_host of another component");
  return **found;
}

bool StrategyLayers::have_dropped_gradients() const {
  const auto has_dropped = [](const auto& layer) { return layer->drops_gradients; };
  const auto highest = std::find_if(layers_.rbegin(), layers_.rend(), has_dropped);
  return highest != layers_.rend() && !(*highest)->wants_gradients;
}

void StrategyLayers::want_gradients(const cohort_host* host) {
  layer_of(host).wants_gradients = true;
}

void StrategyLayers::drop_gradients(const cohort_host* host) {
  Layer& layer = layer_of(host);
  layer.wants_gradients = false;
  layer.drops_gradients = true;
}

bool StrategyLayers::want_gradients() const {
  const auto has_dropped = [](const auto& layer) { return layer->drops_gradients; };
  const auto highest = std::find_if(layers_.rbegin(), layers_.rend(), has_dropped);
  const auto end = highest == layers_.rend() ? highest : std::next(highest);
  return std::any_of(layers_.rbegin(), end, [](const auto& layer) { return layer->wants_gradients; });
}

// A layer that drops the gradients must not meet them because one above it looks at them: neither base nor a layer
// between would know that nobody has asked for their average.
void StrategyLayers::stop_reductions() {
  bool is_dropped = false;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    const bool reduces = !is_dropped && (!(*layer)->drops_gradients || (*layer)->wants_gradients);
    (*layer)->table.reduce_bucket = reduces ? (*layer)->reduce_bucket : no_reduction;
    is_dropped = is_dropped || (*layer)->drops_gradients;
  }
}

// Stands in for a slot of a layer. A layer that has done damage is known when the next one begins, or when it returns.
template <class... Arguments, cohort_status (*cohort_strategy_vt::*Slot)(cohort_strategy*, Arguments...) noexcept>
struct StrategyLayers::Inspected<Slot> {
  static cohort_status call(cohort_strategy* s, Arguments... arguments) noexcept {
    Layer& layer = *static_cast<Layer*>(s);
    if (layer.stack.finds_damage(s, above(s), name_of_slot<Slot>())) return COHORT_INTERNAL;
    const cohort_status status = (layer.uninspected.*Slot)(s, arguments...);
    if (status != COHORT_OK) return status;  // also of a layer below that has been named
    return layer.stack.finds_damage(s, s, name_of_slot<Slot>()) ? COHORT_INTERNAL : COHORT_OK;
  }
};

void StrategyLayers::inspect_slots() {
  for (const auto& layer : layers_) {
    layer->uninspected = layer->table;
    for_each_slot([&]<auto Slot>(std::string_view) {
      if constexpr (requires { &Inspected<Slot>::call; }) layer->table.*Slot = Inspected<Slot>::call;
    });
  }
}

cohort_strategy* StrategyLayers::above(const cohort_strategy* s) {
  cohort_strategy* layer = s->top;
  while (layer != s && layer->below != s) layer = layer->below;
  return layer == s ? nullptr : layer;
}

bool StrategyLayers::finds_damage(cohort_strategy* s, const cohort_strategy* by, std::string_view slot) noexcept {
  const auto look = [&] {
    const std::string damage = inspect_();
    if (damage.empty()) return COHORT_OK;
    const std::string who = by ? "layer " + in_quotes(static_cast<const Layer*>(by)->name) + ", "
                               : "a task of a lane, or the program, before ";
    throw TrainingFailed(who + std::string(slot) + ": memory behind " + damage +
                         " has changed; a view ends after the numel of its bucket");
  };
  return guarded(s->host, look) != COHORT_OK;
}

void StrategyLayers::check_extensions() const {
  constexpr const char* kNobodys = "cohort.no_such_extension/1";
  for (const auto& layer : layers_) {
    if (!layer->extends) continue;
    const PluginCall call(host_.log(), "strategy " + in_quotes(layer->name), "get_extension");
    if (!layer->table.get_extension(layer.get(), kNobodys)) continue;
    throw PluginRefused("layer " + in_quotes(layer->name) + " answers the unknown extension " + in_quotes(kNobodys) +
                        "; its get_extension must return null for ids that it does not know");
  }
}

cohort_status StrategyLayers::configure_model() {
  last_configured_ = "";
  return top()->vt->configure_model(top());
}

cohort_status StrategyLayers::configure_layer(cohort_strategy* s) noexcept {
  const Layer& layer = *static_cast<Layer*>(s);
  layer.stack.last_configured_ = layer.name;
  return layer.own_configure_model(s);
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
        host_.check(status, "strategy " + in_quotes(layer->name) + ", create");
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
    if (!layer->version.empty()) versions.emplace(layer->name, layer->version);
  }
  return versions;
}

std::vector<SlotOwner> slot_owners(std::span<const LayerBlueprint> blueprints) {
  std::vector<SlotOwner> owners;
  for_each_slot([&]<auto Slot>(std::string_view slot) { owners.push_back({slot, "base"}); });
  for (const LayerBlueprint& blueprint : blueprints) {
    const cohort_strategy_vt table = sdk::own_copy(*blueprint.vtable);
    auto owner = owners.begin();
    for_each_slot([&]<auto Slot>(std::string_view) {
      if (table.*Slot) owner->layer = blueprint.name;
      ++owner;
    });
  }
  return owners;
}

}  // namespace cohort::host
