/* Service cohort.memory/1: memory of the run's devices and of the host. Frozen from 1.0.
 *
 * Memory belongs to the order of a stream, as in caching allocators. What `alloc` gives may be used by what the calling
 * thread's stream does from then on; `release` gives it to whatever that stream does next. Work on other streams has to
 * be ordered behind the one and before the other: submitting to a lane and waiting for it does that.
 *
 * The host releases what a component has left at the end of the run.
 */
#ifndef COHORT_API_HOST_MEMORY_H
#define COHORT_API_HOST_MEMORY_H

#include "../host.h"
#include "../tensor.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_MEMORY_ID "cohort.memory/1"

typedef struct cohort_memory_1 {
  /* Memory of a device, aligned to 256 bytes, with any contents. COHORT_NOT_FOUND: the run has no such device.
   * [any-thread] */
  cohort_status (*alloc)(const cohort_host* host, int32_t device_type, int32_t device_index, uint64_t nbytes,
                         void** memory) COHORT_NOEXCEPT;
  /* Gives back what `alloc` gave. Null is nothing. [any-thread] */
  cohort_status (*release)(const cohort_host* host, void* memory) COHORT_NOEXCEPT;
  /* Copies `nbytes` bytes from memory of the stream's device to host memory, in the stream's order, and blocks until
   * they are there: for scalars and for save_state. [any-thread] */
  cohort_status (*read)(const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Copies `nbytes` bytes from host memory to memory of the stream's device, in the stream's order, and blocks until
   * `from` may be reused: for scalars and for load_state. [any-thread] */
  cohort_status (*write)(const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                         const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_memory_1;

COHORT_EXTERN_C_END
#endif
