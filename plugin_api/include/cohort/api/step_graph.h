/* Captured work of LibTorch's devices, for steps that are captured once and replayed (--graph).
 *
 * No part of a plugin, since an accelerator knows nothing of LibTorch: the table is exported, under the name
 * COHORT_STEP_GRAPHS_SYMBOL, by the library that the accelerator gives as `torch_library`, or by a file
 * libcohort_graphs_TYPE.so beside the accelerator's plugin, with TYPE as in `torch_device_type`. The host opens it when
 * it is first needed.
 *
 * While a graph captures, what is enqueued on its stream, and on streams that are ordered behind it by events, is
 * recorded and does not run; memory that LibTorch's allocator gives for it stays with the graph. A replay runs all of
 * it with the same addresses, and with other random numbers each time. Functions return null, or what has gone wrong: a
 * text that lives until the thread's next call. [step]
 */
#ifndef COHORT_API_STEP_GRAPH_H
#define COHORT_API_STEP_GRAPH_H

#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_STEP_GRAPHS_SYMBOL "cohort_step_graphs_1"

typedef struct cohort_step_graphs {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Makes a graph, and begins to capture on the calling thread's current stream of the device, which is not the default
   * one. If it fails there is no graph. */
  const char* (*begin)(int32_t device_index, void** graph)COHORT_NOEXCEPT;
  /* Ends the capture, on the stream where it began, behind all that it has recorded. */
  const char* (*end)(void* graph)COHORT_NOEXCEPT;
  /* Enqueues the captured work on the calling thread's current stream. Nothing waits. */
  const char* (*replay)(void* graph)COHORT_NOEXCEPT;
  /* Ends a capture that goes on, waits for the replays and frees the graph's memory. */
  void (*destroy)(void* graph) COHORT_NOEXCEPT;
} cohort_step_graphs;

COHORT_EXTERN_C_END
#endif
