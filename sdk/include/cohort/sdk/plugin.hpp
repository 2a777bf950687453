// The descriptor of a plugin, as constants: components, their options, and the one exported symbol.
//
//   constexpr cohort_option kOptions[] = {cohort::sdk::option("bits", "int[1..8]", "8", "bits per element")};
//   constexpr cohort_component kRing = cohort::sdk::strategy<Ring>("ring", "averages over a ring").options(kOptions);
//   COHORT_SDK_PLUGIN("org.example.ring", "1.0.0", "Example", "MIT", kRing)
//
// Everything is static and constant-initialised, so nothing runs when the file is loaded.
#pragma once

#include <array>
#include <cstddef>

#include <cohort/api/plugin.h>
#include <cohort/sdk/options.hpp>
#include <cohort/sdk/supports.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// The description of a component. Each method returns a changed copy. Made by strategy<T>(), collective<T>() and
/// accelerator<T>().
class Component {
 public:
  constexpr Component(int32_t kind, const void* vtable, const char* name, const char* summary) {
    component_.struct_size = sizeof component_;
    component_.kind = kind;
    component_.vtable = vtable;
    component_.name = name;
    component_.summary = summary;
  }

  /// Sets a strategy's parent by name; "*" makes a free layer.
  constexpr Component inherits(const char* parent) const {
    Component changed = *this;
    changed.component_.inherits = parent;
    return changed;
  }
  /// Sets the variants: a null-terminated array in static storage, the default first.
  template <std::size_t N>
  constexpr Component variants(const char* const (&names)[N]) const {
    if (names[N - 1] != nullptr) throw "the last variant must be nullptr";
    Component changed = *this;
    changed.component_.variants = names;
    return changed;
  }
  /// Sets the options: an array in static storage.
  template <std::size_t N>
  constexpr Component options(const cohort_option (&table)[N]) const {
    Component changed = *this;
    changed.component_.options = table;
    changed.component_.num_options = N;
    return changed;
  }
  /// Sets the function that answers the host's questions; see supports.hpp.
  template <Answer (*Supports)(const Query&)>
  constexpr Component supports() const {
    Component changed = *this;
    changed.component_.supports = detail::answer<Supports>;
    return changed;
  }

  constexpr operator cohort_component() const { return component_; }

 private:
  cohort_component component_{};
};

/// Returns the null-terminated list for a descriptor. The components must be in static storage.
template <class... Components>
constexpr std::array<const cohort_component*, sizeof...(Components) + 1> component_list(
    const Components&... components) {
  return {&components..., nullptr};
}

/// Returns a descriptor. Everything that it points to must be in static storage.
constexpr cohort_plugin descriptor(const char* id, const char* version, const char* vendor, const char* license,
                                   cohort_status (*init)(const cohort_host*) noexcept, void (*fini)() noexcept,
                                   const cohort_component* const* components) {
  cohort_plugin plugin{};
  plugin.magic = COHORT_PLUGIN_MAGIC;
  plugin.struct_size = sizeof plugin;
  plugin.abi_built = COHORT_ABI_VERSION;
  plugin.abi_required = COHORT_RUNS_ON_ABI;
  plugin.id = id;
  plugin.version = version;
  plugin.vendor = vendor;
  plugin.license = license;
  plugin.components = components;
  plugin.init = init;
  plugin.fini = fini;
  return plugin;
}

}  // namespace v1
}  // namespace cohort::sdk

/// Defines the exported symbol. The components, after the four strings, are constexpr cohort_component objects at
/// namespace scope. Use the macro once, outside every namespace.
#define COHORT_SDK_PLUGIN(id, version, vendor, license, ...) \
  COHORT_SDK_PLUGIN_INIT(id, version, vendor, license, nullptr, nullptr, __VA_ARGS__)

/// Defines the exported symbol, with functions that run once after loading and once at the end; see cohort_plugin.
/// Either may be nullptr.
#define COHORT_SDK_PLUGIN_INIT(id, version, vendor, license, init, fini, ...)    \
  namespace {                                                                    \
  constexpr auto kCohortComponents = ::cohort::sdk::component_list(__VA_ARGS__); \
  }                                                                              \
  constexpr cohort_plugin cohort_plugin_0 =                                      \
      ::cohort::sdk::descriptor(id, version, vendor, license, init, fini, kCohortComponents.data());
