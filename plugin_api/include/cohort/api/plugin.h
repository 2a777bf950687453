/* The descriptor that a plugin exports, and its components.
 *
 * A plugin is one file, cohort_NAME.so, that exports the data symbol `cohort_plugin_0` of type cohort_plugin. Others do
 * no harm. It holds at most one component of each kind, each named NAME. Ownership: everything reachable from the
 * descriptor is static and lives for ever, since plugins are never unloaded.
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
#define COHORT_OPTION_REQUIRED 1u   /* users have to set it; default_value is null */
#define COHORT_OPTION_DEPRECATED 2u /* a user who sets it is warned with its help, which names the replacement */
#define COHORT_OPTION_HIDDEN 4u     /* not listed for users */

/* One option that a user may set as `name,key=value`. Frozen from 1.0. `type` is one of
 *   "bool"  "int" or "int[1..64]" or "int[1..]"  "float" or "float[0..1]"  "size" (25MiB)  "duration" (100ms, 5s)
 *   "enum(a|b|c)"  "string"  "collective" (spec of a collective under this one: gloo, or gloo,iface=eth0)
 * or alternatives that include words: "int[1..]|auto" takes a number or the word. Ends of ranges belong to them, and
 * the upper one may be left out; sizes and durations have no ranges. */
typedef struct cohort_option {
  const char* key;
  const char* type;
  const char* default_value; /* as a user would write it */
  const char* help;          /* one line */
  const char* variants;      /* variants of the strategy that have it, "qadam|async"; others refuse it; null: all */
  uint32_t flags;            /* COHORT_OPTION_... */
  uint32_t reserved0;
} cohort_option;

/* One option as `create` receives it: checked against its type. Every declared option is present. bool is "true" or
 * "false". Integers, sizes in bytes and durations in nanoseconds are decimal digits, with a minus if negative. Other
 * numbers are [-]digits[.digits][e[-]digits], for every notation of the user and every locale; a whole number below
 * 2^53 has no exponent. values.h reads them. Frozen from 1.0. */
typedef struct cohort_key_value {
  const char* key;
  const char* value;
} cohort_key_value;

/* Uses: demands of a job on its plugins, for `use` of a query. The host asks before a use begins, and only about uses
 * of the job. These rules hold unless the comment of a use says otherwise: the host asks every layer of the strategy;
 * if all answers are COHORT_ANSWER_UNKNOWN the default holds, which is yes; one NO refuses the use, whatever other
 * layers answer. */
#define COHORT_USE_DEVICE_TYPE 1  /* tensors on devices of type `value`; also asked: collectives (default: CPU only) */
#define COHORT_USE_ALONE 2        /* several devices, no launcher; NO: a launcher starts the ranks, one device each */
#define COHORT_USE_LAUNCHED 3     /* one of `value` ranks that a launcher has started */
#define COHORT_USE_NODES 4        /* `value` nodes, more than one; also asked: collectives */
#define COHORT_USE_RANKS 5        /* a connection of `value` ranks; only asked: collectives */
#define COHORT_USE_REPLICAS 6     /* `value` replicas in a process, more than one; also asked: accelerators */
#define COHORT_USE_FORK 7         /* ranks are forks of the process; also asked: accelerators (default: CPU only) */
#define COHORT_USE_OWN_LOOP 8     /* a training loop of the program's own (Session) */
#define COHORT_USE_ACCUMULATION 9 /* `value` micro-batches in an optimizer step, more than one */
#define COHORT_USE_CLIPPING 10    /* gradients are limited before the optimizer's step */
#define COHORT_USE_PHASES 11      /* `value` optimizers, more than one */
#define COHORT_USE_BY_HAND 12     /* training_step runs backward and the optimizers itself */
#define COHORT_USE_UNNAMED 13     /* selection without a name; collectives: default yes, accelerators: default no */

/* For CLOSURES, GRAPH, JOIN and LOSS_SCALER one UNKNOWN is no; also asked about GRAPH: the collective. */
#define COHORT_USE_CLOSURES 14 /* the loss is computed several times in a step (LBFGS) */
#define COHORT_USE_GRAPH 17    /* steps are captured once and replayed; a replay calls no slot */
#define COHORT_USE_JOIN 19     /* ranks without data take part in steps, with gradients of zeros */
/* Losses are scaled; gradients arrive unscaled. In a step with a gradient that is not finite on any rank, all ranks
 * skip optimizer_step (COHORT_STEP_SKIPPED). */
#define COHORT_USE_LOSS_SCALER 15

/* The model computes with tensors of dtype `value`, COHORT_FLOAT16 or COHORT_BFLOAT16. Asked of accelerators; and of
 * strategies if their weights are float32 and the model's weights are rounded copies. The host makes the copies anew
 * after end_step and pause, so the model does not see changes of weights at other moments. UNKNOWN is yes. */
#define COHORT_USE_PRECISION 16

/* Ranks have equal weights between steps, to the bit: the host compares a sample of them before each checkpoint and at
 * the end of training. NO: weights differ by design; the job runs, and the host does not compare. UNKNOWN is yes. */
#define COHORT_USE_EQUAL_RANKS 23

/* Buckets of a process lie on `value` devices, more than one. UNKNOWN is no. */
#define COHORT_USE_DEVICES 24

/* The layer stands over the strategy `below_spec`. Asked of free layers. UNKNOWN is yes. */
#define COHORT_USE_BELOW 25

/* Reserved numbers. No host asks about them yet. For ELASTIC, PARTS and PAGES UNKNOWN is no. */
#define COHORT_USE_UNUSED_PARAMETERS 18 /* a step reaches only some of the parameters */
#define COHORT_USE_ELASTIC 20           /* ranks come and go while the program runs: COHORT_LAYOUT_MEMBERS */
#define COHORT_USE_PARTS 21             /* a rank has parts of the parameters: tensors with null data */
#define COHORT_USE_PAGES 22             /* weights are in memory only while they are needed: views live shorter */

#define COHORT_ANSWER_UNKNOWN 0 /* the answer is not known, or the plugin does not know the use */
#define COHORT_ANSWER_YES 1
#define COHORT_ANSWER_NO 2

/* A question about one use, with the host's knowledge at that time. A number is 0 if it is not known: the answer then
 * holds for any number. All pointers live until `supports` returns. */
typedef struct cohort_query {
  uint32_t struct_size;
  int32_t use;        /* COHORT_USE_... */
  int64_t value;      /* of the use; 0 also for a use without one */
  int32_t world_size; /* ranks of the job */
  int32_t num_nodes;
  int32_t local_world_size;        /* ranks on this node */
  int32_t replicas;                /* in each process */
  const char* variant;             /* as in create; never null */
  const cohort_key_value* options; /* [num_options], as in create */
  uint64_t num_options;
  const char* below_spec; /* for free layers: spec of the strategy below, "bagua:qadam,warmup_steps=3"; else "" */
  int32_t answer;         /* out: COHORT_ANSWER_...; UNKNOWN at the call */
  uint32_t reserved0;
  const char* why; /* out, for NO: the reason as static text, "its replicas are threads of one process" */
  const char* fix; /* out, for NO: the user's way out as static text, "choose --strategy=ddp" */
} cohort_query;

typedef struct cohort_component {
  uint32_t struct_size;
  int32_t kind;                 /* COHORT_KIND_... */
  const char* name;             /* [a-z][a-z0-9_-]{0,31} */
  const char* summary;          /* one line */
  const char* inherits;         /* strategies: the parent's name; "*" for a free layer; null for the runtime's `base` */
  const char* const* variants;  /* null-terminated, the first is the default; null if there are none */
  const cohort_option* options; /* [num_options] */
  uint64_t num_options;
  const void* vtable; /* cohort_strategy_vt, cohort_collective_vt, cohort_accelerator_vt or cohort_logger_vt */

  /* Tells if this component can serve a use, in query->answer, why and fix; a null slot answers UNKNOWN. Pure: no
   * threads, no communication, no state. Called before `create`, also in processes that never become a rank. [main] */
  void (*supports)(const cohort_host* host, cohort_query* query) COHORT_NOEXCEPT;
} cohort_component;

typedef struct cohort_plugin {
  uint32_t magic; /* COHORT_PLUGIN_MAGIC */
  uint32_t struct_size;
  uint32_t abi_built;                        /* COHORT_ABI_VERSION of the headers that it was built with */
  uint32_t abi_required;                     /* the oldest host ABI that can run it: COHORT_RUNS_ON_ABI */
  const char* id;                            /* reverse domain, "org.example.fastring" */
  const char* version;                       /* "MAJOR.MINOR.PATCH" */
  const char* vendor;                        /* or null */
  const char* license;                       /* SPDX, or null */
  const cohort_component* const* components; /* null-terminated */

  /* Prepares the plugin. Called once after loading, before any component is used; may be null. A failure refuses the
   * plugin. [main] */
  cohort_status (*init)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Ends the plugin. Called once when the process ends normally; may be null. The file stays mapped. [main] */
  void (*fini)(void) COHORT_NOEXCEPT;
} cohort_plugin;

#define COHORT_COMPONENT_SIZE_1_0 COHORT_END(cohort_component, supports)
#define COHORT_PLUGIN_SIZE_1_0 COHORT_END(cohort_plugin, fini)

/* Defined by the plugin; the host finds it by name. */
COHORT_EXPORT extern const cohort_plugin cohort_plugin_0;

COHORT_EXTERN_C_END
#endif
