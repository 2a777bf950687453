#include "plugin_host/descriptor_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
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

constexpr uint32_t kStrategyFlags = COHORT_STRATEGY_PARTIAL_GRADIENTS | COHORT_STRATEGY_READS_LOSS;
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

// A kind of component, by its table.
struct KnownKind {
  const char* type;
  uint32_t least;  // bytes that every version had
  uint32_t known;  // bytes of this host's
  std::string (*problem_of)(const void* table);
};

template <class Table, std::string (*ProblemOf)(const Table&)>
constexpr KnownKind known_kind(const char* type, uint32_t least) {
  return {type, least, sizeof(Table), [](const void* table) { return ProblemOf(*static_cast<const Table*>(table)); }};
}

const KnownKind* find_kind(int32_t kind) {
  static const std::map<int32_t, KnownKind> kKinds{
      {COHORT_KIND_STRATEGY,
       known_kind<cohort_strategy_vt, strategy_problem>("cohort_strategy_vt", COHORT_STRATEGY_VT_SIZE_1_0)},
      {COHORT_KIND_COLLECTIVE,
       known_kind<cohort_collective_vt, collective_problem>("cohort_collective_vt", COHORT_COLLECTIVE_VT_SIZE_1_0)},
      {COHORT_KIND_ACCELERATOR,
       known_kind<cohort_accelerator_vt, accelerator_problem>("cohort_accelerator_vt", COHORT_ACCELERATOR_VT_SIZE_1_0)},
      {COHORT_KIND_LOGGER, known_kind<cohort_logger_vt, logger_problem>("cohort_logger_vt", COHORT_LOGGER_VT_SIZE_1_0)},
  };
  const auto found = kKinds.find(kind);
  return found == kKinds.end() ? nullptr : &found->second;
}

// Each table begins with its struct_size.
uint32_t table_size(const cohort_component& component) {
  return *static_cast<const uint32_t*>(component.vtable);
}

std::string vtable_problem(const cohort_component& component, bool may_exceed) {
  if (!component.vtable) return "has no vtable; set it";
  const KnownKind& kind = *find_kind(component.kind);
  const uint32_t size = table_size(component);
  const std::string type = kind.type;
  if (size % sizeof(void*) != 0) {
    return "has a " + type + " of " + std::to_string(size) +
           " bytes, which end within a slot; set its struct_size to sizeof(" + type + ")";
  }
  auto problem = length_problem(component.vtable, {size, kind.least, kind.known, may_exceed}, type);
  return problem.empty() ? kind.problem_of(component.vtable) : problem;
}

bool is_in_use(const void* given, uint32_t known, uint32_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  return size > known && std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; });
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
    if (auto text = problem_of(component); !text.empty()) return text + (may_exceed ? "; or update cohort" : "");
  }
  return vtable_problem(component, may_exceed);
}

}  // namespace

bool is_known_kind(int32_t kind) {
  return find_kind(kind) != nullptr;
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
  if (is_in_use(&plugin, sizeof plugin, plugin.struct_size)) parts.push_back("fields of its cohort_plugin");
  for (const cohort_component* const* it = plugin.components; *it; ++it) {
    const cohort_component& component = **it;
    const KnownKind* const kind = find_kind(component.kind);
    if (!kind) {
      parts.push_back("a component of the kind " + std::to_string(component.kind));
      continue;
    }
    const std::string name(to_string(Kind{component.kind}));
    if (is_in_use(&component, sizeof component, component.struct_size)) {
      parts.push_back("fields of the cohort_component of its " + name);
    }
    if (is_in_use(component.vtable, kind->known, table_size(component))) parts.push_back("slots of its " + name);
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
