/* Service cohort.memory/1: memory of the run's devices and of the host. Frozen from 1.0.
 *
 * Memory belongs to the order of a stream, as in caching allocators. Later work of the calling thread's stream may use
 * memory from `alloc`; `release` gives the memory to later work of that stream. Work on other streams has to be ordered
 * behind `alloc` and before `release`: a submission to a lane and a wait for it do that.
 *
 * At the end of the run the host releases the remaining memory of a component.
 */
#ifndef COHORT_API_HOST_MEMORY_H
#define COHORT_API_HOST_MEMORY_H

#include "../host.h"
#include "../tensor.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_MEMORY_ID "cohort.memory/1"

typedef struct cohort_memory_1 {
  /* Allocates memory of a device, aligned to 256 bytes, with any contents. COHORT_NOT_FOUND: the run has no such
   * device. [any-thread] */
  cohort_status (*alloc)(const cohort_host* host, int32_t device_type, int32_t device_index, uint64_t nbytes,
                         void** memory) COHORT_NOEXCEPT;
  /* Gives back memory of `alloc`; does nothing for null. [any-thread] */
  cohort_status (*release)(const cohort_host* host, void* memory) COHORT_NOEXCEPT;
  /* Copies `nbytes` bytes from memory of the stream's device to host memory, in the stream's order, and blocks until
   * they are there. For scalars and for save_state. [any-thread] */
  cohort_status (*read)(const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Copies `nbytes` bytes from host memory to memory of the stream's device, in the stream's order, and blocks until
   * `from` may be reused. For scalars and for load_state. [any-thread] */
  cohort_status (*write)(const cohort_host* host, void* to, const void* from, uint64_t nbytes,
                         const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_memory_1;

COHORT_EXTERN_C_END
#endif
