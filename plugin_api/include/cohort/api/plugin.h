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
#define COHORT_KIND_LOGGER 4

/* Option flags. */
#define COHORT_OPTION_REQUIRED 1u   /* users have to give it; default_value is null */
#define COHORT_OPTION_DEPRECATED 2u /* who gives it is warned with its help, which says what to use instead */
#define COHORT_OPTION_HIDDEN 4u     /* not listed for users */

/* One option that a user may set as `name,key=value`. Frozen from 1.0. `type` is one of
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

/* One option as given to `create`: checked against its type; every declared option is present. bool is "true" or
 * "false". Integers, sizes in bytes and durations in nanoseconds are decimal digits, with a minus if negative. Other
 * numbers are [-]digits[.digits][e[-]digits], whatever the user wrote and whatever the locale; a whole number below
 * 2^53 has no exponent. values.h reads them. Frozen from 1.0. */
typedef struct cohort_key_value {
  const char* key;
  const char* value;
} cohort_key_value;

/* What a job may ask of its plugins: `use` of a query. The host asks before a use begins, and only about uses that the
 * job has. Unless a line says otherwise it asks every layer of the strategy, and the default is yes: what the host does
 * if all answers are COHORT_ANSWER_UNKNOWN. One NO refuses the use, whatever other layers answer, unless the line says
 * otherwise. */
#define COHORT_USE_DEVICE_TYPE 1  /* tensors on devices of type `value`; collectives too: default CPU only */
#define COHORT_USE_ALONE 2        /* several devices and no launcher; NO: each rank of a launcher has one device */
#define COHORT_USE_LAUNCHED 3     /* be one of `value` ranks that a launcher has started */
#define COHORT_USE_NODES 4        /* `value` nodes, more than one; collectives too */
#define COHORT_USE_RANKS 5        /* collectives only: connect `value` ranks */
#define COHORT_USE_REPLICAS 6     /* `value` replicas of the model in a process, more than one; accelerators too */
#define COHORT_USE_FORK 7         /* ranks are forks of the running process; accelerators too: default CPU only */
#define COHORT_USE_OWN_LOOP 8     /* a loop of the program's own (Session) */
#define COHORT_USE_ACCUMULATION 9 /* `value` micro-batches in an optimizer step, more than one */
#define COHORT_USE_CLIPPING 10    /* gradients are limited before the optimizer's step */
#define COHORT_USE_PHASES 11      /* `value` optimizers, more than one */
#define COHORT_USE_BY_HAND 12     /* training_step runs backward and the optimizers itself */
#define COHORT_USE_UNNAMED 13     /* be chosen unnamed; collectives: default yes, accelerators: default no */

/* Asked of every layer of the strategy, and the second of the collective as well; UNKNOWN of any of them is no. */
#define COHORT_USE_CLOSURES 14 /* the loss is computed several times in a step (LBFGS) */
#define COHORT_USE_GRAPH 17    /* steps are captured once and replayed, in which no slot is called */
#define COHORT_USE_JOIN 19     /* ranks without data take part in steps, with gradients of zeros */
/* The same: losses are scaled; gradients arrive unscaled, and a step in which one of them is not finite on any rank
 * skips optimizer_step on all ranks (COHORT_STEP_SKIPPED). */
#define COHORT_USE_LOSS_SCALER 15

/* The model computes with tensors of dtype `value`, COHORT_FLOAT16 or COHORT_BFLOAT16. Asked of accelerators; and of
 * strategies if the weights that they have are float32, of which the model's are rounded copies: these are made anew
 * after end_step and pause, so weights that change at other moments are not seen. UNKNOWN is yes. */
#define COHORT_USE_PRECISION 16

/* Ranks have equal weights between steps, to the bit: the host compares a sample of them before each checkpoint and at
 * the end of training. NO: weights differ by design, and the host does not compare; the job runs. UNKNOWN is yes. */
#define COHORT_USE_EQUAL_RANKS 23

/* Reserved numbers. No host asks about them yet. Of the last three UNKNOWN is no. */
#define COHORT_USE_UNUSED_PARAMETERS 18 /* a step reaches some of the parameters only */
#define COHORT_USE_ELASTIC 20           /* ranks come and go while the program runs: COHORT_LAYOUT_MEMBERS */
#define COHORT_USE_PARTS 21             /* a rank has parts of the parameters: tensors whose data is null */
#define COHORT_USE_PAGES 22             /* weights are in memory only while they are needed: views of shorter lives */

#define COHORT_ANSWER_UNKNOWN 0 /* not known, or a use that this plugin has never heard of */
#define COHORT_ANSWER_YES 1
#define COHORT_ANSWER_NO 2

/* One use, and what the host knows when it asks about it. A number is 0 where it is not known: the answer then holds
 * for any. All pointers live until `supports` returns. */
typedef struct cohort_query {
  uint32_t struct_size;
  int32_t use;        /* COHORT_USE_... */
  int64_t value;      /* of the use; 0 also for a use that has none */
  int32_t world_size; /* ranks */
  int32_t num_nodes;
  int32_t local_world_size;        /* ranks on this node */
  int32_t replicas;                /* in each process */
  const char* variant;             /* as in create: never null */
  const cohort_key_value* options; /* [num_options], as in create */
  uint64_t num_options;
  const char* below_spec; /* free layers: spec of the strategy below, "bagua:qadam,warmup_steps=3"; else "" */
  int32_t answer;         /* out: COHORT_ANSWER_..., UNKNOWN when called */
  uint32_t reserved0;
  const char* why; /* out, for NO: static text, "its replicas are threads of one process" */
  const char* fix; /* out, for NO: static text, what the user can do, "choose --strategy=ddp" */
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
  const void* vtable; /* cohort_strategy_vt, cohort_collective_vt, cohort_accelerator_vt or cohort_logger_vt */

  /* Says whether this component can serve a use, in query->answer, why and fix; null answers UNKNOWN. Pure: no threads,
   * no communication, no state; called before `create`, also in processes that never become a rank. [main] */
  void (*supports)(const cohort_host* host, cohort_query* query) COHORT_NOEXCEPT;
} cohort_component;

typedef struct cohort_plugin {
  uint32_t magic; /* COHORT_PLUGIN_MAGIC */
  uint32_t struct_size;
  uint32_t abi_built;                        /* COHORT_ABI_VERSION of the headers it was built with */
  uint32_t abi_required;                     /* the oldest host ABI that can run it: COHORT_RUNS_ON_ABI */
  const char* id;                            /* reverse domain, "org.example.fastring" */
  const char* version;                       /* "MAJOR.MINOR.PATCH" */
  const char* vendor;                        /* or null */
  const char* license;                       /* SPDX, or null */
  const cohort_component* const* components; /* null-terminated */

  /* Called once after loading, before any component is used; may be null. A failure refuses the plugin. [main] */
  cohort_status (*init)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Called once when the process ends normally; may be null. The file stays mapped. [main] */
  void (*fini)(void) COHORT_NOEXCEPT;
} cohort_plugin;

#define COHORT_COMPONENT_SIZE_1_0 COHORT_END(cohort_component, supports)
#define COHORT_PLUGIN_SIZE_1_0 COHORT_END(cohort_plugin, fini)

/* Defined by the plugin, found by name by the host. */
COHORT_EXPORT extern const cohort_plugin cohort_plugin_0;

COHORT_EXTERN_C_END
#endif
