/* Strategies: the spread of a job over processes, and the handling of gradients and weights in a step.
 *
 * A strategy is a stack of layers, with the runtime's `base` at the bottom. A layer fills the slots that it changes and
 * leaves the others null. The host completes each layer's table with forwarders to the layer below, so a plugin never
 * sees a null slot. `below` is the next layer: call it for the inherited behaviour. `top` is the most derived layer:
 * call it for a step that others may override. Each layer has its own `create` and `destroy`: the host creates the
 * lowest layer first, and destroys in reverse order.
 *
 * Threads: [main] one OS thread for the whole run; [step] the thread that trains, one at a time; [lane] the lane's
 * thread during backward, or the step thread after backward while the lane rests, one at a time. Argument structs are
 * host memory. A layer may change fields marked "edit" and pass the struct on to `below`.
 *
 * Streams order the work on tensors of a device. A slot enqueues on the calling thread's stream (host/stream.h) and
 * returns without waiting for it. The program's own work before and after the slot is on that stream, too; submit and
 * wait order lanes (host/lane.h).
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
  void* data;                          /* private to this layer, set in create */
  struct cohort_strategy* below;       /* null for base only */
  struct cohort_strategy* top;
  const cohort_host* host;
} cohort_strategy;

/* The user's choice of devices and nodes. */
typedef struct cohort_job {
  uint32_t struct_size;
  int32_t device_type;
  int32_t num_devices; /* on each node */
  int32_t num_nodes;
  int32_t external_world_size; /* ranks that a launcher has started, or 0 */
  uint32_t reserved0;
} cohort_job;

/* Ways to make processes. */
#define COHORT_LAUNCH_NONE 0 /* this process is the only one */
#define COHORT_LAUNCH_EXEC 1 /* the program is executed again, once for each process */
#define COHORT_LAUNCH_FORK 2 /* the running process forks in each of fit, validate, test; one node of CPU devices */

typedef struct cohort_plan {
  uint32_t struct_size;
  int32_t processes_per_node;   /* edit */
  int32_t replicas_per_process; /* edit */
  int32_t launch;               /* edit: COHORT_LAUNCH_... */
  const char* collectives; /* edit: names in order of preference, "shm,hier,gloo", static; the host then tries any other
                            * installed one that can serve. Null or "": the host's list. Not read for one process. */
} cohort_plan;

/* The place of this process in the job, from the launcher, and its connection. Edited fields are alike on all ranks. */
typedef struct cohort_dist_args {
  uint32_t struct_size;
  int32_t rank; /* of this process */
  int32_t world_size;
  int32_t local_rank;
  int32_t local_world_size;
  int32_t node_rank;
  int32_t num_nodes;
  int32_t master_port;     /* edit */
  const char* master_addr; /* edit; copy it to keep it */
  int64_t timeout_ns;      /* edit: nanoseconds, for the collective's connection and every later operation */
  cohort_store* store;     /* edit; null: the host's own TCP store at master_addr:master_port */
} cohort_dist_args;

/* Step flags. */
#define COHORT_STEP_FIRST 1u /* first micro-batch of an optimizer step */
#define COHORT_STEP_LAST 2u  /* last micro-batch: gradients are communicated after it */
/* In end_step: a gradient of some rank is not finite, and optimizer_step was called on no rank. The step counts. */
#define COHORT_STEP_SKIPPED 4u
/* The last optimizer of a training step. If a loop runs the optimizers itself, the host cannot know the last one and
 * sets the flag for each of them. */
#define COHORT_STEP_LAST_PHASE 8u
/* In reduce_bucket and end_backward: another backward of a step after its gradients were communicated. Modules that
 * step by hand may run one. The bucket holds the sum of the averaged gradients and the new ones. */
#define COHORT_STEP_REPEATED 16u

typedef struct cohort_step {
  uint32_t struct_size;
  uint32_t flags; /* COHORT_STEP_... */
  uint64_t step;  /* of this phase, done before this one, also by a run that is resumed; the same on all ranks */
  uint32_t micro; /* index of the micro-batch within the step, from 0 */
  uint32_t phase; /* index of the optimizer, from 0 */
  /* The loss that the gradients belong to: the sum of the losses, each times the scale of its backward. In the host's
   * own loop that is the mean over the step's micro-batches and this rank's replicas, times world size / ranks with
   * data if some have none. One float on the device of the phase's first bucket (without buckets: of its weights),
   * without loss scale, valid until end_step returns. Null before the last end_backward of the step, and if no layer
   * has the flag COHORT_STRATEGY_READS_LOSS. */
  const float* loss;
} cohort_step;

/* Flags of a part. */
/* The parameter was in no earlier layout of this training, and no checkpoint was loaded: nothing is kept for it yet. */
#define COHORT_PART_NEW 1u

/* One parameter in a bucket. Frozen from 1.0. */
typedef struct cohort_bucket_part {
  const char* name;
  uint64_t offset; /* elements from the beginning of the bucket */
  uint64_t numel;
  uint32_t id;    /* registration index of the parameter */
  uint32_t flags; /* COHORT_PART_... */
} cohort_bucket_part;

/* A bucket: parameters of one dtype and device, one after another, with a padding of zeros at the end. */
typedef struct cohort_bucket {
  uint32_t struct_size;
  uint32_t index;
  const cohort_bucket_part* parts; /* [num_parts], by offset */
  uint64_t num_parts;
  uint64_t numel;  /* in elements, with padding */
  uint64_t nbytes; /* in bytes, with padding */
  int32_t dtype;
  uint32_t phase;
  int32_t device_type; /* of its parameters, and of every buffer with its layout */
  int32_t device_index;
  int32_t role; /* for comm/1.get: the ranks that have this bucket's parameters and average its gradients.
                 * COHORT_ROLE_WORLD; hosts that spread a model over ranks will have other numbers */
  uint32_t reserved0;
} cohort_bucket;

/* Flags of a layout. A layer may set them and never clears them. */
#define COHORT_PLAN_ONE_BUCKET 1u /* one bucket for each dtype and phase, of any size */
#define COHORT_PLAN_KEEP_ORDER                                                                                 \
  2u /* parameters stay in reverse registration order; without it the host orders them by the arrival of their \
      * gradients, and puts parts on cache lines */
#define COHORT_PLAN_KEEP_SIZE 4u /* a large gradient gets no bucket of its own */
#define COHORT_PLAN_BY_UNIT 8u   /* reserved */

/* The layout of parameters in buckets: reverse registration order per dtype and phase. A bucket closes when its size is
 * reached or passed. The user's --bucket-size wins over `size` and `first_size`. */
typedef struct cohort_bucket_plan {
  uint32_t struct_size;
  uint32_t flags;      /* edit: COHORT_PLAN_... */
  uint64_t size;       /* edit: bytes that close a bucket; 0: the host's value, 25 MiB or a measured one */
  uint64_t first_size; /* edit: bytes that close the first bucket; 0: as `size`, or the host's 1 MiB */
  uint64_t alignment;  /* edit: in elements; numel of every bucket is a multiple of each layer's value */
} cohort_bucket_plan;

/* Reasons of layout_ready. */
#define COHORT_LAYOUT_NEW 1     /* training begins: a layer forgets everything from an earlier training */
#define COHORT_LAYOUT_RESUMED 2 /* a checkpoint was loaded: weights, STATE, OPTIM and archive/1 hold its values */
#define COHORT_LAYOUT_AGAIN 3   /* the layout has changed between two steps; all values were kept */
/* Reserved: the job has other ranks. The host first calls init_dist_connection again, and `own` may be called as in
 * configure_model. Layers may close old communicators, which are of no other use, and ask again for communicators,
 * lanes and memory. A new rank has rank 0's STATE if it is shared, else zeros. */
#define COHORT_LAYOUT_MEMBERS 4

/* Ways to limit gradients. */
#define COHORT_CLIP_NORM 1  /* gradients of the phase are multiplied by limit / (norm + 1e-6), if that is below 1 */
#define COHORT_CLIP_VALUE 2 /* each element is brought into -limit .. limit */

/* Limits for the gradients of a phase, as in torch.nn.utils.clip_grad_norm_ and clip_grad_value_. */
typedef struct cohort_clip_args {
  uint32_t struct_size;
  int32_t by;   /* COHORT_CLIP_... */
  double limit; /* for the 2-norm over all gradients, or an element's magnitude; infinite: no change */
  double* norm; /* out: the 2-norm before, in memory of the phase's first bucket's device; null: not wanted */
  /* The 2-norm over all ranks, in memory as `norm`, to limit by; null: base measures the gradients that this rank
   * shows. A strategy with partial gradients puts it together and passes it to the layer below. */
  const double* given_norm;
} cohort_clip_args;
#define COHORT_CLIP_ARGS_SIZE_1_0 COHORT_END(cohort_clip_args, given_norm)

/* Reasons of a pause. Training resumes with the next begin_step. */
#define COHORT_PAUSE_EVALUATE 1
#define COHORT_PAUSE_CHECKPOINT 2
#define COHORT_PAUSE_END 3

/* Flags of a strategy. The flags of all its layers hold. */
#define COHORT_STRATEGY_PARTIAL_GRADIENTS                                                                       \
  1u /* after reduce_bucket a rank has only the gradients of the parameters that it owns (optimizer/1.own): the \
      * program and the optimizers see no others */
#define COHORT_STRATEGY_READS_LOSS 2u /* cohort_step.loss is wanted; it costs a small addition each micro-batch */

typedef struct cohort_strategy_vt {
  uint32_t struct_size;
  uint32_t flags; /* COHORT_STRATEGY_... */
  /* Makes `data`. `variant` is never null; it is "" if none was given and none is declared. [main] */
  cohort_status (*create)(cohort_strategy* s, const char* variant, const cohort_key_value* options,
                          uint64_t num_options) COHORT_NOEXCEPT;
  /* Releases `data`; not called if create failed. May give back communicators and memory of memory/1, also after a
   * failure; the host takes back the rest. [main] */
  void (*destroy)(cohort_strategy* s) COHORT_NOEXCEPT;

  /* Fills the plan. Pure: no communication, no threads; may be called in a process that never becomes a rank. base: one
   * process per device, one replica, COHORT_LAUNCH_EXEC if there are several processes. [main] */
  cohort_status (*plan)(cohort_strategy* s, const cohort_job* job, cohort_plan* plan) COHORT_NOEXCEPT;
  /* Connects the ranks. base: opens a store, waits up to 60 s for all ranks (or up to the timeout, if that is less),
   * and binds `world`, `node`, `leaders` of the collective. Collective. [main] */
  cohort_status (*init_dist_connection)(cohort_strategy* s, cohort_dist_args* args) COHORT_NOEXCEPT;
  /* Prepares the model and its optimizers, which exist now. Called once per training. base: checks that all ranks of
   * WORLD have the same model, and gives rank 0's weights, buffers and optimizer state to all. If one rank owns
   * parameters (optimizer/1.own, before `below`), their state stays on that rank alone. Layers make lanes and
   * communicators here or in layout_ready. Every layer calls `below`; the host refuses one that does not. Collective.
   * [main] */
  cohort_status (*configure_model)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* Describes the layout of the buckets, and wants its views with buckets/1: a layer calls `below` first, then edits.
   * Called after configure_model, and again between two steps whenever the layout changes. The same on all ranks of
   * WORLD, which the host compares. base: GRAD if there are several ranks or replicas. Collective. [main] */
  cohort_status (*plan_buckets)(cohort_strategy* s, cohort_bucket_plan* plan) COHORT_NOEXCEPT;
  /* Receives the layout; weights and restored state are in their views. `reason` is a COHORT_LAYOUT_...: NEW once per
   * training, after the first layout; RESUMED once, after load_state and a layout that it asked for; else AGAIN. Tasks
   * of all lanes have ended, so a layer may release memory of the old layout. base: nothing. Collective. [main] */
  cohort_status (*layout_ready)(cohort_strategy* s, int32_t reason) COHORT_NOEXCEPT;

  /* Begins a micro-batch, before forward. base: nothing. [step] */
  cohort_status (*begin_step)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;
  /* Reduces the bucket's gradients. They are in its GRAD view: summed over the process's replicas, divided by the
   * number of micro-batches, without loss scale; zeros for a parameter that backward did not reach. Called once per
   * optimizer step and bucket, buckets in order, during backward or after it, on the stream of lane 0 (see
   * host/stream.h). A layer that leaves the inherited one out puts the mean there itself, with the same bits on all
   * ranks. base: all-reduce mean over `world`. [lane] */
  cohort_status (*reduce_bucket)(cohort_strategy* s, const cohort_step* step,
                                 const cohort_bucket* bucket) COHORT_NOEXCEPT;
  /* Ends the backward of a micro-batch; every reduce_bucket has returned. base: nothing. [step] */
  cohort_status (*end_backward)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;
  /* Limits gradients, if they are to be limited, once per optimizer step, before it. base: limits the gradients of the
   * phase that this rank shows. A strategy with partial gradients puts the ranks' norms together. [step] */
  cohort_status (*clip_gradients)(cohort_strategy* s, const cohort_step* step,
                                  const cohort_clip_args* args) COHORT_NOEXCEPT;
  /* Updates the weights, once per optimizer step. base: the host optimizer's step. [step] */
  cohort_status (*optimizer_step)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;
  /* Ends an optimizer step. Called once, after it; then the host gives replica 0's weights to the other replicas. base:
   * nothing. [step] */
  cohort_status (*end_step)(cohort_strategy* s, const cohort_step* step) COHORT_NOEXCEPT;

  /* Pauses training for an evaluation, a checkpoint or its end (COHORT_PAUSE_...). base: nothing. Collective. [step] */
  cohort_status (*pause)(cohort_strategy* s, int32_t reason) COHORT_NOEXCEPT;
  /* Saves values that the strategy keeps outside STATE to archive/1, after pause(CHECKPOINT). base: nothing. [main] */
  cohort_status (*save_state)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* Loads the values of save_state, before the first step of a run that resumes. base: nothing. [main] */
  cohort_status (*load_state)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* Ends the strategy, on all ranks, while communicators still work. base: nothing. [main] */
  cohort_status (*shutdown)(cohort_strategy* s) COHORT_NOEXCEPT;
  /* Returns the table of this strategy with this id; null for an id that it does not know, which the host tries. base:
   * null. [any-thread] */
  const void* (*get_extension)(cohort_strategy* s, const char* id)COHORT_NOEXCEPT;
} cohort_strategy_vt;
#define COHORT_STRATEGY_VT_SIZE_1_0 COHORT_END(cohort_strategy_vt, get_extension)

COHORT_EXTERN_C_END
#endif
