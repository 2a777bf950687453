#include "plugin_host/descriptor_checks.hpp"

#include <cstddef>
#include <set>
#include <span>
#include <sstream>
#include <vector>

#include <cohort/api/accelerator.h>
#include <cohort/api/collective.h>
#include <cohort/api/logger.h>
#include <cohort/api/strategy.h>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

#include "given/given_struct.hpp"

namespace cohort::host {
namespace {

// More is a sign of a missing null or a wrong count.
constexpr std::size_t kMostVariants = 64;
constexpr uint64_t kMostOptions = 256;

constexpr uint32_t kStrategyFlags = COHORT_STRATEGY_PARTIAL_GRADIENTS;
constexpr uint32_t kCollectiveFlags =
    COHORT_COLLECTIVE_RANK_ORDERED | COHORT_COLLECTIVE_ROUNDS_ONCE | COHORT_COLLECTIVE_ONE_ORDER;

std::string abi_problem(const cohort_plugin& plugin) {
  constexpr bool kDraft = COHORT_ABI_MAJOR == 0;
  const bool too_new = plugin.abi_required > COHORT_ABI_VERSION;
  if (!too_new && !(kDraft && plugin.abi_built != COHORT_ABI_VERSION)) return "";
  return "it was built for plugin ABI " + abi_text(plugin.abi_built) + " and needs " + abi_text(plugin.abi_required) +
         ", but this is cohort " COHORT_VERSION " with plugin ABI " + abi_text(COHORT_ABI_VERSION) +
         "; rebuild it with the headers of cohort " COHORT_VERSION;
}

std::string header_problem(const cohort_plugin& plugin) {
  if (plugin.magic != COHORT_PLUGIN_MAGIC) {
    return "its symbol " COHORT_PLUGIN_SYMBOL " does not begin with COHORT_PLUGIN_MAGIC; define it as a cohort_plugin";
  }
  if (plugin.struct_size < COHORT_END(cohort_plugin, abi_required)) {
    return "its descriptor says that it is only " + std::to_string(plugin.struct_size) +
           " bytes long; set struct_size to sizeof(cohort_plugin)";
  }
  if (auto problem = abi_problem(plugin); !problem.empty()) return problem;
  const GivenLength length{plugin.struct_size, COHORT_PLUGIN_SIZE_1_0, sizeof plugin};
  if (auto problem = length_problem(&plugin, length, "cohort_plugin"); !problem.empty()) return "it " + problem;
  if (!is_one_line(plugin.id) || !is_one_line(plugin.version))
    return "its descriptor lacks an id or a version; set both";
  if (!plugin.components || !*plugin.components) return "its descriptor lists no components; add one";
  return "";
}

// The first variant of an option that the component does not have, or "".
std::string unknown_variant(const cohort_component& component, const cohort_option& option) {
  if (!option.variants) return "";
  std::istringstream names(option.variants);
  for (std::string name; std::getline(names, name, '|');) {
    const char* const* known = component.variants;
    while (known && *known && name != *known) ++known;
    if (!known || !*known) return name.empty() ? "(none)" : name;
  }
  return "";
}

std::string options_problem(const cohort_component& component) {
  if (component.num_options == 0) return "";
  if (!component.options || component.num_options > kMostOptions) return "has a wrong option table; check num_options";
  std::set<std::string_view> keys;
  for (const auto& option : std::span(component.options, component.num_options)) {
    std::string problem;
    if (!is_valid_option(option, problem)) return "has a wrong option table: " + problem;
    if (const auto variant = unknown_variant(component, option); !variant.empty()) {
      return "has the option " + in_quotes(option.key) + " for the variant " + in_quotes(variant) +
             ", which it does not declare; name variants as in \"a|b\"";
    }
    if (!keys.insert(option.key).second) return "declares the option " + in_quotes(option.key) + " twice; remove one";
  }
  return "";
}

std::string variants_problem(const cohort_component& component) {
  std::set<std::string_view> seen;
  for (const char* const* variant = component.variants; variant && *variant; ++variant) {
    if (!is_plugin_name(*variant)) {
      return "declares the variant " + in_quotes(*variant) + ", but variants have the form [a-z][a-z0-9_-]{0,31}";
    }
    if (!seen.insert(*variant).second) return "declares the variant " + in_quotes(*variant) + " twice; remove one";
    if (seen.size() > kMostVariants) return "declares too many variants; end the list with a null";
  }
  return "";
}

std::string parent_problem(const cohort_component& component) {
  if (!component.inherits) return "";
  const std::string_view parent = component.inherits;
  if (component.kind != COHORT_KIND_STRATEGY)
    return "inherits from " + in_quotes(parent) + ", but only strategies can; set it to null";
  if (parent == "*" || is_plugin_name(parent)) return "";
  return "inherits from " + in_quotes(parent) + ", which is no name; write a strategy's name, \"*\" or null";
}

// A table may be shorter than the host's, as far as a slot goes; what it lacks is null. `least`: its fields before the
// slots.
template <class Table>
std::string table_length_problem(const Table& table, uint32_t least, const char* type) {
  if (table.struct_size % sizeof(void*) != 0) {
    return "has a " + std::string(type) + " of " + std::to_string(table.struct_size) +
           " bytes, which end within a slot; set its struct_size to sizeof(" + type + ")";
  }
  return length_problem(&table, {table.struct_size, least, sizeof table}, type);
}

std::string strategy_problem(const cohort_strategy_vt& table) {
  constexpr uint32_t kLeast = COHORT_END(cohort_strategy_vt, flags) + sizeof(void*);  // one slot
  auto problem = table_length_problem(table, kLeast, "cohort_strategy_vt");
  return problem.empty() ? flags_problem(table.flags, kStrategyFlags, "cohort_strategy_vt") : problem;
}

std::string collective_problem(const cohort_collective_vt& table) {
  const std::string lacks = "lacks the required function ";
  constexpr uint32_t kLeast = COHORT_END(cohort_collective_vt, flags);
  if (auto problem = table_length_problem(table, kLeast, "cohort_collective_vt"); !problem.empty()) return problem;
  if (!COHORT_HAS(&table, cohort_collective_vt, connect)) return lacks + "connect";
  if (!COHORT_HAS(&table, cohort_collective_vt, exchange)) return lacks + "exchange";
  if (table.alloc && !(table.split && table.release))
    return "has alloc without split or release; set all three or none";
  return flags_problem(table.flags, kCollectiveFlags, "cohort_collective_vt");
}

std::string accelerator_problem(const cohort_accelerator_vt& table) {
  const std::string lacks = "lacks the required function ";
  constexpr uint32_t kLeast = COHORT_END(cohort_accelerator_vt, device_type);
  if (auto problem = table_length_problem(table, kLeast, "cohort_accelerator_vt"); !problem.empty()) return problem;
  if (!COHORT_HAS(&table, cohort_accelerator_vt, torch_device_type)) return "lacks torch_device_type";
  if (!COHORT_HAS(&table, cohort_accelerator_vt, device_count)) return lacks + "device_count";
  const bool copies = COHORT_HAS(&table, cohort_accelerator_vt, wait) && table.free_pinned && table.copy_to_host;
  if (COHORT_HAS(&table, cohort_accelerator_vt, alloc_pinned) && !(copies && table.copy_to_device))
    return "has alloc_pinned without free_pinned, copy_to_host, copy_to_device or wait; set all five or none";
  return "";
}

std::string logger_problem(const cohort_logger_vt& table) {
  constexpr uint32_t kLeast = COHORT_END(cohort_logger_vt, reserved0);
  if (auto problem = table_length_problem(table, kLeast, "cohort_logger_vt"); !problem.empty()) return problem;
  return COHORT_HAS(&table, cohort_logger_vt, log_values) ? "" : "lacks the required function log_values";
}

std::string vtable_problem(const cohort_component& component) {
  if (!component.vtable) return "has no vtable; set it";
  if (component.kind == COHORT_KIND_STRATEGY)
    return strategy_problem(*static_cast<const cohort_strategy_vt*>(component.vtable));
  if (component.kind == COHORT_KIND_COLLECTIVE)
    return collective_problem(*static_cast<const cohort_collective_vt*>(component.vtable));
  if (component.kind == COHORT_KIND_LOGGER)
    return logger_problem(*static_cast<const cohort_logger_vt*>(component.vtable));
  return accelerator_problem(*static_cast<const cohort_accelerator_vt*>(component.vtable));
}

std::string component_problem(const cohort_component& component, std::string_view name) {
  if (!component.name || component.name != name) {
    return "is named " + in_quotes(component.name ? component.name : "(null)") + ", but its file says " +
           in_quotes(name) + "; make them equal";
  }
  if (component.kind == COHORT_KIND_STRATEGY && name == "base")
    return "is named 'base', which is the runtime's own; rename it";
  if (!is_one_line(component.summary)) return "lacks its summary of one line; set it";
  for (const auto problem_of : {parent_problem, variants_problem, options_problem, vtable_problem}) {
    if (auto problem = problem_of(component); !problem.empty()) return problem;
  }
  return "";
}

bool is_kind(int32_t kind) {
  return kind >= COHORT_KIND_STRATEGY && kind <= COHORT_KIND_LOGGER;
}

}  // namespace

std::string descriptor_problem(const cohort_plugin& plugin, std::string_view name) {
  if (auto problem = header_problem(plugin); !problem.empty()) return problem;
  std::set<int32_t> kinds;
  for (const cohort_component* const* it = plugin.components; *it; ++it) {
    const cohort_component& component = **it;
    const GivenLength length{component.struct_size, COHORT_COMPONENT_SIZE_1_0, sizeof component};
    if (const auto problem = length_problem(&component, length, "cohort_component"); !problem.empty())
      return "it " + problem;
    if (!is_kind(component.kind)) {
      return "it has a component of the unknown kind " + std::to_string(component.kind) +
             "; use a COHORT_KIND_ constant";
    }
    const std::string kind(to_string(Kind{component.kind}));
    if (!kinds.insert(component.kind).second)
      return "it has more than one component of the kind " + kind + "; split it";
    if (const auto problem = component_problem(component, name); !problem.empty()) return "its " + kind + " " + problem;
  }
  return "";
}

const cohort_component* component_of(const cohort_plugin& plugin, int32_t kind) {
  for (const cohort_component* const* it = plugin.components; *it; ++it) {
    if ((*it)->kind == kind) return *it;
  }
  return nullptr;
}

std::string abi_text(uint32_t abi) {
  return std::to_string(abi >> 16) + "." + std::to_string(abi & 0xffff);
}

}  // namespace cohort::host
