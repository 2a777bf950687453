#include <algorithm>
#include <iterator>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace cohort::host {
namespace {

constexpr std::string_view kRoot = "base";
constexpr std::string_view kFree = "*";

using Component = const cohort_component*;
using KeyValues = std::vector<std::pair<std::string, std::string>>;

bool is_free(const cohort_component& component) {
  return component.inherits && component.inherits == kFree;
}

// A free layer's parent is only known when it is put on a strategy.
std::string_view parent_of(const cohort_component& component) {
  return component.inherits && !is_free(component) ? std::string_view(component.inherits) : kRoot;
}

std::span<const cohort_option> options_of(const cohort_component& component) {
  return {component.options, component.num_options};
}

std::vector<std::string> variants_of(const cohort_component& component) {
  std::vector<std::string> variants;
  for (const char* const* variant = component.variants; variant && *variant; ++variant) variants.emplace_back(*variant);
  return variants;
}

const cohort_component& open_parent(PluginHost& plugins, const cohort_component& child) {
  const std::string who = "strategy " + in_quotes(child.name) + " inherits from " + in_quotes(child.inherits);
  try {
    const cohort_component& parent = plugins.open(Kind::kStrategy, child.inherits);
    if (!is_free(parent)) return parent;
  } catch (const UserError& error) {
    throw UserError(who + ", but " + error.what());
  }
  throw PluginRefused(who + ", which is a free layer and no parent; ask the authors of " + in_quotes(child.name));
}

std::string circle_text(std::span<const Component> chain, std::string_view again) {
  std::string text;
  for (const Component component : chain) text += std::string(component->name) + " -> ";
  return text + std::string(again);
}

// The strategy and its ancestors, nearest first, without base.
std::vector<Component> chain_of(PluginHost& plugins, const cohort_component& strategy) {
  std::vector<Component> chain{&strategy};
  while (parent_of(*chain.back()) != kRoot) {
    const std::string_view parent = parent_of(*chain.back());
    const bool known = std::ranges::any_of(chain, [&](Component component) { return component->name == parent; });
    if (known) {
      throw PluginRefused("strategies inherit from each other in a circle: " + circle_text(chain, parent) +
                          "; one of them must inherit from base");
    }
    chain.push_back(&open_parent(plugins, *chain.back()));
  }
  return chain;
}

std::vector<cohort_option> merged_options(std::span<const Component> chain) {
  std::vector<cohort_option> merged;
  for (const Component component : chain) {
    for (const cohort_option& option : options_of(*component)) {
      const std::string_view key = option.key;
      const bool hidden = std::ranges::any_of(merged, [&](const cohort_option& other) { return other.key == key; });
      if (!hidden) merged.push_back(option);
    }
  }
  return merged;
}

std::vector<std::string> merged_variants(std::span<const Component> chain) {
  std::vector<std::string> merged;
  for (const Component component : chain) {
    for (std::string& variant : variants_of(*component)) {
      if (std::ranges::find(merged, variant) == merged.end()) merged.push_back(std::move(variant));
    }
  }
  return merged;
}

// The variant that was asked for, or the first of `known`, or "".
std::string checked_variant(const std::string& asked, const std::vector<std::string>& known, const std::string& who) {
  if (asked.empty()) return known.empty() ? "" : known.front();
  if (std::ranges::find(known, asked) != known.end()) return asked;
  if (known.empty()) throw UserError(who + " has no variants; leave out ':" + asked + "'");
  const std::string nearest = nearest_name(asked, known);
  std::string list;
  for (const std::string& variant : known) list += (list.empty() ? "" : ", ") + variant;
  const std::string hint = nearest.empty() ? "; its" : "; did you mean " + in_quotes(nearest) + "? Its";
  throw UserError(who + " has no variant " + in_quotes(asked) + hint + " variants are " + list);
}

// Those of `given` that this layer declares and that are not taken yet; they are taken now.
KeyValues take_declared(KeyValues& given, const cohort_component& layer) {
  const auto is_declared = [&](const auto& option) {
    return std::ranges::any_of(options_of(layer),
                               [&](const cohort_option& known) { return known.key == option.first; });
  };
  const auto rest = std::stable_partition(given.begin(), given.end(), std::not_fn(is_declared));
  KeyValues taken(std::make_move_iterator(rest), std::make_move_iterator(given.end()));
  given.erase(rest, given.end());
  return taken;
}

const cohort_strategy_vt* vtable_of(const cohort_component& component) {
  return static_cast<const cohort_strategy_vt*>(component.vtable);
}

const cohort_component& open_strategy(PluginHost& plugins, const Spec& spec) {
  const cohort_component& strategy = plugins.open(Kind::kStrategy, spec.name);
  if (!is_free(strategy)) return strategy;
  throw UserError(in_quotes(spec.name) +
                  " is a layer and no strategy of its own; put it on a strategy with --layer=" + spec.name);
}

const cohort_component& open_free_layer(PluginHost& plugins, const Spec& spec) {
  const cohort_component& layer = plugins.open(Kind::kStrategy, spec.name);
  if (is_free(layer)) return layer;
  throw UserError(in_quotes(spec.name) + " cannot be used as --layer, because it is a strategy on top of " +
                  in_quotes(parent_of(layer)) + "; use --strategy=" + spec.name);
}

LayerBlueprint free_blueprint(PluginHost& plugins, const Spec& spec, const std::string& strategy_variant) {
  const cohort_component& layer = open_free_layer(plugins, spec);
  const std::string who = "layer " + in_quotes(spec.name);
  const std::string own_variant = checked_variant(spec.variant, variants_of(layer), who);
  return {spec.name, vtable_of(layer), check_options(options_of(layer), spec.options, who, own_variant),
          own_variant.empty() ? strategy_variant : own_variant, plugins.version_of(layer)};
}

void refuse_repeated(std::span<const Spec> free_layers) {
  for (auto layer = free_layers.begin(); layer != free_layers.end(); ++layer) {
    if (std::find_if(free_layers.begin(), layer, [&](const Spec& other) { return other.name == layer->name; }) == layer)
      continue;
    throw UserError("--layer=" + layer->name + " is given twice; keep one of them");
  }
}

}  // namespace

std::vector<LayerBlueprint> resolve_layers(PluginHost& plugins, const Spec& strategy,
                                           std::span<const Spec> free_layers) {
  refuse_repeated(free_layers);
  const std::vector<Component> chain = chain_of(plugins, open_strategy(plugins, strategy));
  const std::string who = "strategy " + in_quotes(strategy.name);
  const std::string variant = checked_variant(strategy.variant, merged_variants(chain), who);
  check_options(merged_options(chain), strategy.options, who, variant);  // unknown keys belong to no layer

  std::vector<LayerBlueprint> layers;
  KeyValues given = strategy.options;
  for (const Component component : chain) {
    const KeyValues taken = take_declared(given, *component);
    const std::string layer_name = "strategy " + in_quotes(component->name);
    layers.push_back({component->name, vtable_of(*component), check_options(options_of(*component), taken, layer_name),
                      variant, plugins.version_of(*component)});
  }
  std::ranges::reverse(layers);
  for (const Spec& spec : free_layers) layers.push_back(free_blueprint(plugins, spec, variant));
  return layers;
}

std::vector<cohort_option> inherited_options(PluginHost& plugins, const cohort_component& strategy) {
  return merged_options(chain_of(plugins, strategy));
}

std::vector<std::string> inherited_variants(PluginHost& plugins, const cohort_component& strategy) {
  return merged_variants(chain_of(plugins, strategy));
}

}  // namespace cohort::host
