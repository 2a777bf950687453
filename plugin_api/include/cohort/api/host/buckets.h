/* Service cohort.buckets/1: one layout of the parameters, and flat tensors with that layout.
 *
 * In plan_buckets the layers of a strategy want buffers of the layout; their wants add up. The host then lays out once,
 * with at most two collective allocations for each device: one for gradients, one for everything else. Buckets of one
 * process may lie on several devices. Between two steps the host or a layer may ask for another layout: STATE, OPTIM
 * and weights keep their values.
 *
 * Lifetimes: a GRAD view is valid from the bucket's reduce_bucket to the end of the step. Never keep it: in the next
 * step it may be elsewhere. Views of the other kinds, and cohort_bucket pointers, are valid until the next layout.
 * Kinds that are added later may have other sizes and shorter lives, and in a layout with views of pages a GRAD view is
 * valid until reduce_bucket returns. Only a layer that answers YES to COHORT_USE_PARTS or COHORT_USE_PAGES meets them.
 */
#ifndef COHORT_API_HOST_BUCKETS_H
#define COHORT_API_HOST_BUCKETS_H

#include "../strategy.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_BUCKETS_ID "cohort.buckets/1"

/* Kinds of flat buffers. */
#define COHORT_BUCKET_GRAD 1   /* gradients; without it there are no hooks and no reduce_bucket */
#define COHORT_BUCKET_WEIGHT 2 /* weights, re-pointed into the layout */
#define COHORT_BUCKET_STATE 4  /* private to the layer, zero-filled, by name; kept over new layouts and saved */
#define COHORT_BUCKET_OPTIM 8  /* the host optimizer's state of this name, re-pointed into the layout: "exp_avg" */
#define COHORT_BUCKET_PAGE 16  /* reserved */

/* Flags of a STATE buffer. */
#define COHORT_STATE_SCRATCH 1u /* neither kept over new layouts nor saved: zeros after each layout */
#define COHORT_STATE_SHARED \
  2u /* equal on all ranks of WORLD at each checkpoint, as with COHORT_ARCHIVE_SHARED (archive.h) */

typedef struct cohort_buckets_1 {
  /* Adds a buffer to the wants of the layers, in plan_buckets only. `name` and `flags` (COHORT_STATE_...) are for
   * STATE, `name` for OPTIM too; null and 0 otherwise. Names of STATE belong to the calling layer: layers may use the
   * same one. `dtype` is for STATE; 0, and all other kinds, take the bucket's. OPTIM: "momentum_buffer" (sgd),
   * "exp_avg", "exp_avg_sq" (adam, adamw), "square_avg" (rmsprop), "sum" (adagrad); made with zeros and step 0 if the
   * optimizer has not stepped yet. If an optimizer keeps none of that name, the layout fails. Padding is zero at first.
   * [main] */
  cohort_status (*want)(const cohort_host* host, int32_t kind, const char* name, int32_t dtype,
                        uint32_t flags) COHORT_NOEXCEPT;
  /* Withdraws the wants of the layers below of this kind, which is GRAD. In plan_buckets only. reduce_bucket of those
   * layers is then never called; that of the caller only if it wants GRAD after the drop. A layer above that wants GRAD
   * sees its own rank's gradients, without any averaging. [main] */
  cohort_status (*drop)(const cohort_host* host, int32_t kind) COHORT_NOEXCEPT;
  /* Returns the number of buckets. */
  uint32_t (*count)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Returns a bucket, or null if there is no such one. [any-thread] */
  const cohort_bucket* (*get)(const cohort_host* host, uint32_t index)COHORT_NOEXCEPT;
  /* Fills `*view` with the flat tensor [numel] of a bucket. [any-thread] */
  cohort_status (*view)(const cohort_host* host, uint32_t index, int32_t kind, const char* name,
                        cohort_tensor* view) COHORT_NOEXCEPT;
  /* Requests another layout before the next step: plan_buckets, with the same or other wants, then layout_ready. Called
   * on all ranks of WORLD in the same step, or in load_state. [step] [main] */
  cohort_status (*request_relayout)(const cohort_host* host) COHORT_NOEXCEPT;
} cohort_buckets_1;

COHORT_EXTERN_C_END
#endif
