/* Captured work of LibTorch's devices, for steps that are captured once and replayed (--graph).
 *
 * This is no part of a plugin, since an accelerator knows nothing of LibTorch. A library exports the table under the
 * name COHORT_STEP_GRAPHS_SYMBOL: either the accelerator's `torch_library`, or a file libcohort_graphs_TYPE.so beside
 * the accelerator's plugin, with TYPE as in `torch_device_type`. The host opens it at its first use.
 *
 * While a graph captures, the work enqueued on its stream, and on streams that events order behind it, is recorded and
 * does not run. Memory that LibTorch's allocator gives for this work stays with the graph. A replay runs all of the
 * work with the same addresses, and with other random numbers each time. Functions return null, or the text of an
 * error, which lives until the thread's next call. [step]
 */
#ifndef COHORT_API_STEP_GRAPH_H
#define COHORT_API_STEP_GRAPH_H

#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_STEP_GRAPHS_SYMBOL "cohort_step_graphs_1"

typedef struct cohort_step_graphs {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Makes a graph and begins to capture on the calling thread's current stream of the device. That is not the default
   * stream. A failure leaves no graph. */
  const char* (*begin)(int32_t device_index, void** graph)COHORT_NOEXCEPT;
  /* Ends the capture, on its first stream, behind all recorded work. */
  const char* (*end)(void* graph)COHORT_NOEXCEPT;
  /* Enqueues the captured work on the calling thread's current stream, and waits for nothing. */
  const char* (*replay)(void* graph)COHORT_NOEXCEPT;
  /* Ends an unfinished capture, waits for the replays and frees the graph's memory. */
  void (*destroy)(void* graph) COHORT_NOEXCEPT;
} cohort_step_graphs;
#define COHORT_STEP_GRAPHS_SIZE_1_0 COHORT_END(cohort_step_graphs, destroy)

COHORT_EXTERN_C_END
#endif
