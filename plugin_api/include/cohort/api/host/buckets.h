/* Service cohort.buckets/1: one layout of the parameters, and flat tensors with that layout. Frozen.
 *
 * In configure_model a strategy says what it wants, then configures; views live until the next configure_model (unless
 * all layers say COHORT_STRATEGY_GRAD_IN_PLACE). A layer that wants something else than the inherited configure_model
 * says all that it wants and configures once more.
 * Order: reverse registration order per dtype; a bucket closes when its size is reached or passed. With flags the host
 * may lay out again between two steps: it calls configure_model once more, STATE and weights keep their values.
 */
#ifndef COHORT_API_HOST_BUCKETS_H
#define COHORT_API_HOST_BUCKETS_H

#include "../strategy.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_BUCKETS_ID "cohort.buckets/1"

/* Kinds of flat buffers. */
#define COHORT_BUCKET_GRAD 1   /* gradients of replica 0; without it there are no hooks and no reduce_bucket */
#define COHORT_BUCKET_WEIGHT 2 /* weights, re-pointed into the layout */
#define COHORT_BUCKET_STATE 4  /* the strategy's own, zero-filled, by name; kept over new layouts and saved */
#define COHORT_BUCKET_OPTIM 8  /* the host optimizer's state of this name, re-pointed into the layout: "exp_avg" */

/* Flag of a strategy's table: this layer asks for a GRAD view in the slot that uses it, and keeps none. Where all
 * layers that fill slots of the step say so, a gradient alone in its bucket may stay where backward made it: it has a
 * view from reduce_bucket to the end of the step, in each step another one; where no rank used the parameter, up to
 * end_backward. */
#define COHORT_STRATEGY_GRAD_IN_PLACE 1u

/* Layout flags, for strategies whose result does not depend on which parameters share a bucket and where in it. */
#define COHORT_LAYOUT_ANY_ORDER 1u /* the host puts parts on cache lines and, after the first step, as they arrived */
#define COHORT_LAYOUT_ANY_SIZE                                                          \
  2u /* the sizes are a proposal; the host may find better ones by measuring steps, and \
      * give large parameters buckets of their own */

typedef struct cohort_bucket_layout {
  uint32_t struct_size;
  uint32_t one_bucket; /* 1: one bucket per dtype, whatever the sizes */
  uint64_t size;       /* bytes at which a bucket closes; the host's --bucket-size wins where given */
  uint64_t first_size; /* bytes at which the first bucket closes; 0: as `size` */
  uint64_t align;      /* elements; every bucket's numel is a multiple of it; 0: 1 */
  uint32_t flags;      /* COHORT_LAYOUT_... */
  uint32_t reserved0;
} cohort_bucket_layout;

typedef struct cohort_buckets_1 {
  /* `name` is for STATE and OPTIM; null otherwise. OPTIM: "momentum_buffer" (sgd), "exp_avg", "exp_avg_sq" (adam,
   * adamw), "square_avg" (rmsprop), "sum" (adagrad); made with zeros and step 0 where the optimizer has not stepped
   * yet. Where an optimizer keeps none of that name, configure_model fails when it has returned. STATE whose name
   * begins with '.' is scratch: neither kept nor saved. Padding is zero at first. [main] */
  cohort_status (*want)(const cohort_host* host, int32_t kind, const char* name) COHORT_NOEXCEPT;
  /* Lays out what was wanted since the last call of it. Collective: allocates from the collective's memory where it has
   * some. [main] */
  cohort_status (*configure)(const cohort_host* host, const cohort_bucket_layout* layout) COHORT_NOEXCEPT;
  uint64_t (*count)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Null where there is no such bucket. [any-thread] */
  const cohort_bucket* (*get)(const cohort_host* host, uint64_t index)COHORT_NOEXCEPT;
  /* The flat tensor [numel] of a bucket. [any-thread] */
  cohort_status (*view)(const cohort_host* host, uint64_t index, int32_t kind, const char* name,
                        cohort_tensor* view) COHORT_NOEXCEPT;
  /* Replicas of the model in this process. Gradients of those after the first stay where backward made them; the
   * inherited reduce_bucket adds them to GRAD. [any-thread] */
  uint32_t (*num_replicas)(const cohort_host* host) COHORT_NOEXCEPT;
  /* configure_model is called once more before the next step; what it wants then may be something else. On all ranks in
   * the same step, or in load_state. [step] [main] */
  cohort_status (*lay_out_again)(const cohort_host* host) COHORT_NOEXCEPT;
} cohort_buckets_1;

COHORT_EXTERN_C_END
#endif
