#include "plugin_host/descriptor_checks.hpp"

#include <algorithm>
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

std::string abi_problem(const cohort_plugin& plugin, uint32_t host_abi) {
  const bool is_draft = host_abi >> 16 == 0;
  const bool is_too_new = plugin.abi_required > host_abi;
  if (!is_too_new && !(is_draft && plugin.abi_built != host_abi)) return "";
  const std::string versions = "it was built for plugin ABI " + abi_text(plugin.abi_built) + " and needs " +
                               abi_text(plugin.abi_required) +
                               ", but this is cohort " COHORT_VERSION " with plugin ABI " + abi_text(host_abi);
  if (is_too_new) return versions + "; update cohort, or build the plugin with the headers of cohort " COHORT_VERSION;
  return versions + "; rebuild it with the headers of cohort " COHORT_VERSION;
}

std::string header_problem(const cohort_plugin& plugin, uint32_t host_abi) {
  if (plugin.magic != COHORT_PLUGIN_MAGIC) {
    return "its symbol " COHORT_PLUGIN_SYMBOL " does not begin with COHORT_PLUGIN_MAGIC; define it as a cohort_plugin";
  }
  if (plugin.struct_size < COHORT_END(cohort_plugin, abi_required)) {
    return "its descriptor says that it is only " + std::to_string(plugin.struct_size) +
           " bytes long; set struct_size to sizeof(cohort_plugin)";
  }
  if (auto problem = abi_problem(plugin, host_abi); !problem.empty()) return problem;
  const GivenLength length{plugin.struct_size, COHORT_PLUGIN_SIZE_1_0, sizeof plugin, plugin.abi_built > host_abi};
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

template <class Table>
std::string table_length_problem(const Table& table, uint32_t least, const char* type, bool may_exceed) {
  if (table.struct_size % sizeof(void*) != 0) {
    return "has a " + std::string(type) + " of " + std::to_string(table.struct_size) +
           " bytes, which end within a slot; set its struct_size to sizeof(" + type + ")";
  }
  return length_problem(&table, {table.struct_size, least, sizeof table, may_exceed}, type);
}

std::string strategy_problem(const cohort_strategy_vt& table) {
  return flags_problem(table.flags, kStrategyFlags, "cohort_strategy_vt");
}

std::string collective_problem(const cohort_collective_vt& table) {
  const std::string lacks = "lacks the required function ";
  if (!table.connect) return lacks + "connect";
  if (!table.exchange) return lacks + "exchange";
  if (table.alloc && !(table.split && table.release))
    return "has alloc without split or release; set all three or none";
  return flags_problem(table.flags, kCollectiveFlags, "cohort_collective_vt");
}

std::string accelerator_problem(const cohort_accelerator_vt& table) {
  if (!table.device_count) return "lacks the required function device_count";
  const bool copies = table.wait && table.free_pinned && table.copy_to_host && table.copy_to_device;
  if (table.alloc_pinned && !copies)
    return "has alloc_pinned without free_pinned, copy_to_host, copy_to_device or wait; set all five or none";
  return "";
}

std::string logger_problem(const cohort_logger_vt& table) {
  return table.log_values ? "" : "lacks the required function log_values";
}

template <class Table>
std::string table_problem(const cohort_component& component, uint32_t least, const char* type,
                          std::string (*problem_of)(const Table&), bool may_exceed) {
  const auto& table = *static_cast<const Table*>(component.vtable);
  auto problem = table_length_problem(table, least, type, may_exceed);
  return problem.empty() ? problem_of(table) : problem;
}

std::string vtable_problem(const cohort_component& component, bool may_exceed) {
  if (!component.vtable) return "has no vtable; set it";
  switch (component.kind) {
    case COHORT_KIND_STRATEGY:
      return table_problem(component, COHORT_STRATEGY_VT_SIZE_1_0, "cohort_strategy_vt", strategy_problem, may_exceed);
    case COHORT_KIND_COLLECTIVE:
      return table_problem(component, COHORT_COLLECTIVE_VT_SIZE_1_0, "cohort_collective_vt", collective_problem,
                           may_exceed);
    case COHORT_KIND_LOGGER:
      return table_problem(component, COHORT_LOGGER_VT_SIZE_1_0, "cohort_logger_vt", logger_problem, may_exceed);
    default:
      return table_problem(component, COHORT_ACCELERATOR_VT_SIZE_1_0, "cohort_accelerator_vt", accelerator_problem,
                           may_exceed);
  }
}

uint32_t host_table_size(int32_t kind) {
  switch (kind) {
    case COHORT_KIND_STRATEGY:
      return sizeof(cohort_strategy_vt);
    case COHORT_KIND_COLLECTIVE:
      return sizeof(cohort_collective_vt);
    case COHORT_KIND_LOGGER:
      return sizeof(cohort_logger_vt);
    default:
      return sizeof(cohort_accelerator_vt);
  }
}

std::string component_problem(const cohort_component& component, std::string_view name, bool may_exceed) {
  if (!component.name || component.name != name) {
    return "is named " + in_quotes(component.name ? component.name : "(null)") + ", but its file says " +
           in_quotes(name) + "; make them equal";
  }
  if (component.kind == COHORT_KIND_STRATEGY && (name == "base" || name == "program"))
    return "is named " + in_quotes(name) + ", which is the runtime's own; rename it";
  if (!is_one_line(component.summary)) return "lacks its summary of one line; set it";
  for (const auto problem_of : {parent_problem, variants_problem, options_problem}) {
    if (auto problem = problem_of(component); !problem.empty()) return problem;
  }
  return vtable_problem(component, may_exceed);
}

}  // namespace

bool is_known_kind(int32_t kind) {
  return kind >= COHORT_KIND_STRATEGY && kind <= COHORT_KIND_LOGGER;
}

std::string descriptor_problem(const cohort_plugin& plugin, std::string_view name, uint32_t host_abi) {
  if (auto problem = header_problem(plugin, host_abi); !problem.empty()) return problem;
  const bool may_exceed = plugin.abi_built > host_abi;  // it says that it can do without
  std::set<int32_t> kinds;
  for (const cohort_component* const* it = plugin.components; *it; ++it) {
    const cohort_component& component = **it;
    const GivenLength length{component.struct_size, COHORT_COMPONENT_SIZE_1_0, sizeof component, may_exceed};
    if (const auto problem = length_problem(&component, length, "cohort_component"); !problem.empty())
      return "it " + problem;
    if (!is_known_kind(component.kind)) {
      if (may_exceed) continue;
      return "it has a component of the unknown kind " + std::to_string(component.kind) +
             "; use a COHORT_KIND_ constant";
    }
    const std::string kind(to_string(Kind{component.kind}));
    if (!kinds.insert(component.kind).second)
      return "it has more than one component of the kind " + kind + "; split it";
    if (const auto problem = component_problem(component, name, may_exceed); !problem.empty())
      return "its " + kind + " " + problem;
  }
  return "";
}

std::vector<std::string> ignored_parts(const cohort_plugin& plugin) {
  std::vector<std::string> parts;
  for (const cohort_component* const* it = plugin.components; *it; ++it) {
    const cohort_component& component = **it;
    if (!is_known_kind(component.kind)) {
      parts.push_back("a component of the kind " + std::to_string(component.kind));
      continue;
    }
    const uint32_t known = host_table_size(component.kind);
    const uint32_t size = *static_cast<const uint32_t*>(component.vtable);  // each table begins with its struct_size
    const auto* const bytes = static_cast<const unsigned char*>(component.vtable);
    if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
      parts.push_back("slots of its " + std::string(to_string(Kind{component.kind})));
    }
  }
  return parts;
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
