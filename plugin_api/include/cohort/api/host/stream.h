/* Service cohort.stream/1: the stream that the calling thread's work on a device is ordered by. Frozen from 1.0.
 *
 * In a slot that is the stream on which the program computes: what the slot enqueues runs behind what the program has
 * enqueued, and before what it enqueues next. In reduce_bucket it is lane 0's stream, behind the bucket's gradients. In
 * a task of a lane it is the lane's. It is asked for in each call and not kept: threads may have another one later.
 */
#ifndef COHORT_API_HOST_STREAM_H
#define COHORT_API_HOST_STREAM_H

#include "../host.h"
#include "../tensor.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_STREAM_ID "cohort.stream/1"

typedef struct cohort_stream_1 {
  /* Fills `*stream`. On a device `native` is never null; on CPU, where work is done when a call returns, it is.
   * COHORT_NOT_FOUND: the run has no such device. [any-thread] */
  cohort_status (*current)(const cohort_host* host, int32_t device_type, int32_t device_index,
                           cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_stream_1;

COHORT_EXTERN_C_END
#endif
