/* The descriptor that a plugin exports, and the components in it.
 *
 * A plugin is one file, cohort_NAME.so, with exactly one exported data symbol: `cohort_plugin_0` of type cohort_plugin.
 * It holds at most one component of each kind, each named NAME. Ownership: everything reachable from the descriptor is
 * static and lives for ever (plugins are never unloaded).
 */
#ifndef COHORT_API_PLUGIN_H
#define COHORT_API_PLUGIN_H

#include "host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_PLUGIN_MAGIC 0x54524843u /* "CHRT" in memory */
#define COHORT_PLUGIN_SYMBOL "cohort_plugin_0"

/* Kinds of components. */
#define COHORT_KIND_STRATEGY 1
#define COHORT_KIND_COLLECTIVE 2
#define COHORT_KIND_ACCELERATOR 3

/* Option flags. */
#define COHORT_OPTION_REQUIRED 1u   /* users have to give it; default_value is null */
#define COHORT_OPTION_DEPRECATED 2u /* who gives it is warned with its help, which says what to use instead */
#define COHORT_OPTION_HIDDEN 4u     /* not listed for users */

/* One option that a user may set as `name,key=value`. Frozen. `type` is one of
 *   "bool"  "int" or "int[1..64]"  "float" or "float[0..1]"  "size" (25MiB)  "duration" (100ms, 5s)  "enum(a|b|c)"
 * "string"  "collective" (a spec of the collective that this one is made of: gloo, or with options gloo,iface=eth0) */
typedef struct cohort_option {
  const char* key;
  const char* type;
  const char* default_value; /* as the user would write it */
  const char* help;          /* one line */
  const char* variants;      /* of the strategy that have it, "qadam|async"; null: all; others refuse it */
  uint32_t flags;            /* COHORT_OPTION_... */
  uint32_t reserved0;
} cohort_option;

/* One option as given to `create`: checked against its type; every declared option is present. Sizes are given in bytes
 * and durations in nanoseconds, as decimal integers; bool as "true" or "false". Frozen. */
typedef struct cohort_key_value {
  const char* key;
  const char* value;
} cohort_key_value;

/* What the host knows when it asks whether a component can serve. Filled by the host, answered in the last two fields.
 */
typedef struct cohort_query {
  uint32_t struct_size;
  int32_t device_type; /* of the chosen accelerator */
  int32_t world_size;
  int32_t num_nodes;
  int32_t local_world_size; /* ranks on this node */
  int32_t score;            /* out: > 0 can serve (more is better), <= 0 cannot */
  const char* reason;       /* out: one static sentence, where score <= 0 */
} cohort_query;

typedef struct cohort_component {
  uint32_t struct_size;
  int32_t kind;                 /* COHORT_KIND_... */
  const char* name;             /* [a-z][a-z0-9_-]{0,31} */
  const char* summary;          /* one line */
  const char* inherits;         /* strategies: the parent's name; "*" for a free layer; null for the runtime's `base` */
  const char* const* variants;  /* null-terminated, first is the default; null where there are none */
  const cohort_option* options; /* [num_options] */
  uint64_t num_options;
  const void* vtable; /* cohort_strategy_vt, cohort_collective_vt or cohort_accelerator_vt */

  /* Answers in query->score and query->reason. Null means "always, score 1". Must not start threads. [main] */
  void (*supports)(const cohort_host* host, cohort_query* query) COHORT_NOEXCEPT;
} cohort_component;

typedef struct cohort_plugin {
  uint32_t magic; /* COHORT_PLUGIN_MAGIC */
  uint32_t struct_size;
  uint32_t abi_built;    /* COHORT_ABI_VERSION of the headers it was built with */
  uint32_t abi_required; /* the oldest host ABI that can run it: COHORT_TARGET_ABI */
  const char* id;        /* reverse domain, "org.example.fastring" */
  const char* version;   /* "MAJOR.MINOR.PATCH" */
  const char* vendor;
  const char* license;                       /* SPDX */
  const cohort_component* const* components; /* null-terminated */

  /* Called once after loading, before any component is used; may be null. A failure refuses the plugin. [main] */
  cohort_status (*init)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Called once when the process ends normally; may be null. The file stays mapped. [main] */
  void (*fini)(void) COHORT_NOEXCEPT;
} cohort_plugin;

/* What every version of the two structs has. */
#define COHORT_COMPONENT_SIZE_1_0 COHORT_END(cohort_component, supports)
#define COHORT_PLUGIN_SIZE_1_0 COHORT_END(cohort_plugin, fini)

/* Defined by the plugin, found by name by the host. */
COHORT_EXPORT extern const cohort_plugin cohort_plugin_0;

COHORT_EXTERN_C_END
#endif
