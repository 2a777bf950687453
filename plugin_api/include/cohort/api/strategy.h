/* Strategies: how a job is spread over processes, and what happens to gradients and weights in a step.
 *
 * A strategy is a stack of layers, the runtime's `base` at the bottom. A layer fills the slots that it changes and
 * leaves the others null: the host completes each layer's table with forwarders to the layer below, so no slot that a
 * plugin sees is null. `below` is the next layer: call it for the inherited behaviour. `top` is the most derived layer:
 * call it for a step that others may override. `create` and `destroy` are each layer's own: lowest first, and in
 * reverse order.
 *
 * Threads: [main] one OS thread for the whole run; [step] the thread that trains, one at a time; [lane] the lane's
 * thread, which runs while backward goes on, or the step thread after backward while the lane rests: one at a time.
 * Argument structs are host memory; fields marked "edit" may be changed and the struct passed on to `below`.
 *
 * Streams: tensors on a device are worked on in the order of streams. A slot enqueues on the calling thread's stream
 * (host/stream.h) and returns without waiting for it; the program's own work before and after the slot is on that
 * stream, too, and lanes are ordered by submit and wait (host/lane.h).
 */
#ifndef COHORT_API_STRATEGY_H
#define COHORT_API_STRATEGY_H

#include "plugin.h"
#include "store.h"
#include "tensor.h"

COHORT_EXTERN_C_BEGIN

/* Made by the host. */
typedef struct cohort_strategy {
  uint32_t struct_size;
  uint32_t reserved0;
  const struct cohort_strategy_vt* vt; /* completed by the host: no slot is null */
  void* data;                          /* this layer's own, set in create */
  struct cohort_strategy* below;       /* null for base only */
  struct cohort_strategy* top;
  const cohort_host* host;
} cohort_strategy;

/* What the user asked for. */
typedef struct cohort_job {
  uint32_t struct_size;
  int32_t device_type;
  int32_t num_devices; /* per node */
  int32_t num_nodes;
  int32_t external_world_size; /* ranks that a launcher has started, or 0 */
  uint32_t reserved0;
} cohort_job;

/* How processes come to be. */
#define COHORT_LAUNCH_NONE 0 /* this process is the only one */
#define COHORT_LAUNCH_EXEC 1 /* the program is executed again, once for each process */
#define COHORT_LAUNCH_FORK 2 /* the running process forks in each of fit, validate, test; one node of CPU devices */

typedef struct cohort_plan {
  uint32_t struct_size;
  int32_t processes_per_node;   /* edit */
  int32_t replicas_per_process; /* edit */
  int32_t launch;               /* edit: COHORT_LAUNCH_... */
  const char* collectives; /* edit: names in order of preference, "shm,hier,gloo", static; then any other installed one
                            * that can serve. Null or "": the host's list. Not read for one process. */
} cohort_plan;

typedef struct cohort_dist_args {
  uint32_t struct_size;
  int32_t rank; /* this and the next five: where the launcher has put this process, known to the host by then */
  int32_t world_size;
  int32_t local_rank;
  int32_t local_world_size;
  int32_t node_rank;
  int32_t num_nodes;
  int32_t master_port;     /* edit, as all below: alike on all ranks */
  const char* master_addr; /* copied by whoever keeps it */
  int64_t timeout_ns;      /* of the connection and of every later operation */
  cohort_store* store;     /* null: the host's own TCP store at master_addr:master_port */
} cohort_dist_args;

/* Step flags. */
#define COHORT_STEP_FIRST 1u /* first micro-batch of an optimizer step */
#define COHORT_STEP_LAST 2u  /* last one: gradients are communicated after it */
/* In end_step: a gradient of some rank is not finite, and optimizer_step was called on no rank. The step counts. */
#define COHORT_STEP_SKIPPED 4u

typedef struct cohort_step {
  uint32_t struct_size;
  uint32_t flags; /* COHORT_STEP_... */
  uint64_t step;  /* optimizer steps done before this one */
  uint32_t micro; /* micro-batch within the step, from 0; with FIRST above 0: another backward of it, by hand */
  uint32_t phase; /* which optimizer, from 0 */
} cohort_step;

/* Flags of a part. */
#define COHORT_PART_NEW 1u /* its parameter was in no earlier layout of this training: nothing is kept for it yet */

/* One parameter in a bucket. Frozen from 1.0. */
typedef struct cohort_bucket_part {
  const char* name;
  uint64_t offset; /* elements from the beginning of the bucket */
  uint64_t numel;
  uint32_t id;    /* registration index of the parameter */
  uint32_t flags; /* COHORT_PART_... */
} cohort_bucket_part;

/* A bucket: parameters of one dtype and device, laid out one after another and padded at the end with zeros. */
typedef struct cohort_bucket {
  uint32_t struct_size;
  uint32_t index;
  const cohort_bucket_part* parts; /* [num_parts], by offset */
  uint64_t num_parts;
  uint64_t numel;  /* with padding */
  uint64_t nbytes; /* with padding */
  int32_t dtype;
  uint32_t phase;
  int32_t device_type; /* of its parameters, and of every buffer with its layout */
  int32_t device_index;
  int32_t role; /* for comm/1.get: of the ranks that have this bucket's parameters, over which its gradients are
                 * averaged. COHORT_ROLE_WORLD; hosts that spread a model over ranks will have other numbers */
  uint32_t reserved0;
} cohort_bucket;

/* Flags of a layout. A layer may set them and never clears them. */
#define COHORT_PLAN_ONE_BUCKET 1u /* one bucket for each dtype and phase, whatever the sizes */
#define COHORT_PLAN_KEEP_ORDER                                                                                       \
  2u /* parameters stay in reverse registration order; without it the host orders them as gradients arrive, and puts \
      * parts on cache lines */
#define COHORT_PLAN_KEEP_SIZE 4u /* a large gradient gets no bucket of its own */
#define COHORT_PLAN_BY_UNIT 8u   /* reserved */

/* How parameters are laid out in buckets: reverse registration order per dtype and phase; a bucket closes when its size
 * is reached or passed. The user's --bucket-size wins over `size` and `first_size`. */
typedef struct cohort_bucket_plan {
  uint32_t struct_size;
  uint32_t flags;      /* edit: COHORT_PLAN_... */
  uint64_t size;       /* edit: bytes at which a bucket closes; 0: the host's, 25 MiB or what it measured */
  uint64_t first_size; /* edit: bytes at which the first bucket closes; 0: as `size`, or the host's 1 MiB */
  uint64_t alignment;  /* edit: elements; every bucket's numel is a multiple of what each layer leaves here */
} cohort_bucket_plan;

/* Why layout_ready is called. */
#define COHORT_LAYOUT_NEW 1     /* training begins: a layer forgets what it kept from an earlier training */
#define COHORT_LAYOUT_RESUMED 2 /* a checkpoint was loaded: weights, STATE, OPTIM and archive/1 hold its values */
#define COHORT_LAYOUT_AGAIN 3   /* the layout has changed between two steps; all values were kept */
/* Reserved: the job has other ranks. Before it the host calls init_dist_connection again, and `own` may be called as in
 * configure_model. Old communicators may be closed and are of no other use; new ones, lanes and memory are asked for
 * again. A new rank has rank 0's STATE if it is shared, else zeros. */
#define COHORT_LAYOUT_MEMBERS 4

/* Ways to limit gradients. */
#define COHORT_CLIP_NORM 1  /* all of the phase are multiplied by limit / (norm + 1e-6), if that is below 1 */
#define COHORT_CLIP_VALUE 2 /* each element is brought into -limit .. limit */

/* How the gradients of a phase are limited, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do. */
typedef struct cohort_clip_args {
  uint32_t struct_size;
  int32_t by;   /* COHORT_CLIP_... */
  double limit; /* of the 2-norm over all gradients, or of an element's magnitude; infinite: they stay as they are */
  double* norm; /* out: the 2-norm before, in memory of the device of the phase's first bucket; null: not asked for */
} cohort_clip_args;
#define COHORT_CLIP_ARGS_SIZE_1_0 COHORT_END(cohort_clip_args, norm)

/* Why training pauses. It goes on with the next begin_step. */
#define COHORT_PAUSE_EVALUATE 1
#define COHORT_PAUSE_CHECKPOINT 2
#define COHORT_PAUSE_END 3

/* Flags of a strategy; those of all its layers hold. */
#define COHORT_STRATEGY_PARTIAL_GRADIENTS                                                                            \
  1u /* after reduce_bucket a rank has gradients of the parameters alone that it owns (optimizer/1.own): the program \
      * and the optimizers are shown no others */

typedef struct cohort_strategy_vt {
  uint32_t struct_size;
  uint32_t flags; /* COHORT_STRATEGY_... */
  /* `variant` is never null; "" where none was given and none is declared. [main] */
  cohort_status (*create)(cohort_strategy* s, const char* variant, const cohort_key_value* options,
                          uint64_t num_options) COHORT_NOEXCEPT;
  void (*destroy)(cohort_strategy* s) COHORT_NOEXCEPT;

  /* Fills the plan. Pure: no communication, no threads; may be called in a process that never becomes a rank.
   * base: one process per device, one replica, executed again when there are several. [main] */
  cohort_status (*plan)(cohort_strategy* s, const cohort_job* job, cohort_plan* plan) COHORT_NOEXCEPT;
  /* Connects the ranks. base: opens a store, binds `world`, `node`, `leaders` of the collective. Collective. [main] */
  cohort_status (*init_dist_connection)(cohort_strategy* s, cohort_dist_args* args) COHORT_NOEXCEPT;
  /* The model and its optimizers exist; once per training. base: checks that all ranks of WORLD have the same model,
   * and gives rank 0's weights, buffers and optimizer state to all; state of parameters that one rank owns
   * (optimizer/1.own, before `below`) is that rank's alone. Lanes and communicators are made here or in layout_ready.
   * Collective. [main]
   */
  cohort_status (*configure_model)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* Describes the layout of the buckets, and with buckets/1 the views that it must have: a layer calls `below` first,
   * then edits. After configure_model, and again between two steps whenever the layout changes. The same on all ranks
   * of WORLD. base: GRAD if there are several ranks or replicas. [main] */
  cohort_status (*plan_buckets)(cohort_strategy* s, cohort_bucket_plan* plan) COHORT_NOEXCEPT;
  /* The layout exists; weights and restored state are in their views. `reason` is a COHORT_LAYOUT_...: NEW once per
   * training, after the first layout; RESUMED once, after load_state and a layout that it asked for; else AGAIN. base:
   * nothing. Collective. [main] */
  cohort_status (*layout_ready)(cohort_strategy* s, int32_t reason) COHORT_NOEXCEPT;

  /* Before forward, for each micro-batch. base: nothing. [step] */
  cohort_status (*begin_step)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;
  /* The bucket's gradients are in its GRAD view: summed over the process's replicas, divided by the number of
   * micro-batches, without loss scale; zeros for a parameter that backward did not reach. Runs once per optimizer step
   * and bucket, buckets in order, while backward goes on or after it, on the stream of lane 0 (see host/stream.h).
   * base: all-reduce mean over `world`. [lane] */
  cohort_status (*reduce_bucket)(cohort_strategy* s, const cohort_step* step,
                                 const cohort_bucket* bucket) COHORT_NOEXCEPT;
  /* After backward, for each micro-batch; every reduce_bucket has returned. base: nothing. [step] */
  cohort_status (*end_backward)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;
  /* If gradients are to be limited, once per optimizer step, before it. base: limits the gradients of the phase that
   * this rank shows. A strategy with partial gradients puts the ranks' norms together. [step] */
  cohort_status (*clip_gradients)(cohort_strategy* s, const cohort_step* step,
                                  const cohort_clip_args* args) COHORT_NOEXCEPT;
  /* Once per optimizer step. base: the host optimizer's step. [step] */
  cohort_status (*optimizer_step)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;
  /* Once per optimizer step, after it; then the host gives replica 0's weights to the other replicas. base: nothing.
   * [step] */
  cohort_status (*end_step)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;

  /* Training stops for an evaluation, a checkpoint or its end. base: nothing. Collective. [step] */
  cohort_status (*pause)(cohort_strategy* s, int32_t reason) COHORT_NOEXCEPT;
  /* A checkpoint, after pause(CHECKPOINT): values that the strategy keeps outside STATE go to archive/1, and come back
   * in load_state, before the first step of a run that resumes. base: nothing. [main] */
  cohort_status (*save_state)(cohort_strategy* s) COHORT_NOEXCEPT;
  cohort_status (*load_state)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* The end, on all ranks, while communicators still work. base: nothing. [main] */
  cohort_status (*shutdown)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* A table of this strategy by id, or null. base: null. [any-thread] */
  const void* (*get_extension)(cohort_strategy* s, const char* id)COHORT_NOEXCEPT;
} cohort_strategy_vt;
#define COHORT_STRATEGY_VT_SIZE_1_0 COHORT_END(cohort_strategy_vt, get_extension)

COHORT_EXTERN_C_END
#endif
