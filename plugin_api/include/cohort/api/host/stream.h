/* Service cohort.stream/1: the stream that orders the calling thread's work on a device. Frozen from 1.0.
 *
 * In a slot it is the program's compute stream: the work of the slot runs behind the program's earlier work and before
 * its later work. In reduce_bucket it is lane 0's stream, behind the bucket's gradients. In a task of a lane it is the
 * lane's. Ask for it in each call and do not keep it: threads may have another one later.
 */
#ifndef COHORT_API_HOST_STREAM_H
#define COHORT_API_HOST_STREAM_H

#include "../host.h"
#include "../tensor.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_STREAM_ID "cohort.stream/1"

typedef struct cohort_stream_1 {
  /* Fills `*stream`. `native` is never null on a device, and null on CPU, since work there is done when a call returns.
   * COHORT_NOT_FOUND: the run has no such device. [any-thread] */
  cohort_status (*current)(const cohort_host* host, int32_t device_type, int32_t device_index,
                           cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_stream_1;

COHORT_EXTERN_C_END
#endif
