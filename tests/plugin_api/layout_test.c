/* The layout of the ABI is what layout_64bit.inc says; a difference does not compile. */
#include <cohort/api/cohort.h>
#include <cohort/api/ext/draft/parts.h>
#include <cohort/api/step_graph.h>

#define LAYOUT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved");
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has another size");

#if UINTPTR_MAX == UINT64_MAX
#include "layout_64bit.inc"
#endif

/* At the freeze of 1.0 the minima cover the whole structs. */
#define WHOLE(type, least) _Static_assert((least) == sizeof(type), #least " leaves a field of " #type " out");
WHOLE(cohort_accelerator_vt, COHORT_ACCELERATOR_VT_SIZE_1_0)
WHOLE(cohort_clip_args, COHORT_CLIP_ARGS_SIZE_1_0)
WHOLE(cohort_collective_vt, COHORT_COLLECTIVE_VT_SIZE_1_0)
WHOLE(cohort_component, COHORT_COMPONENT_SIZE_1_0)
WHOLE(cohort_connect_args, COHORT_CONNECT_ARGS_SIZE_1_0)
WHOLE(cohort_exchange_args, COHORT_EXCHANGE_ARGS_SIZE_1_0)
WHOLE(cohort_job_info, COHORT_JOB_INFO_SIZE_1_0)
WHOLE(cohort_kernels_adam_1, COHORT_KERNELS_ADAM_SIZE_1_0)
WHOLE(cohort_kernels_core_1, COHORT_KERNELS_CORE_SIZE_1_0)
WHOLE(cohort_kernels_minmax_uint8_1, COHORT_KERNELS_MINMAX_UINT8_SIZE_1_0)
WHOLE(cohort_kernels_ring_1, COHORT_KERNELS_RING_SIZE_1_0)
WHOLE(cohort_logger_vt, COHORT_LOGGER_VT_SIZE_1_0)
WHOLE(cohort_op_args, COHORT_OP_ARGS_SIZE_1_0)
WHOLE(cohort_parts_1, COHORT_PARTS_SIZE_1_0)
WHOLE(cohort_plugin, COHORT_PLUGIN_SIZE_1_0)
WHOLE(cohort_step_graphs, COHORT_STEP_GRAPHS_SIZE_1_0)
WHOLE(cohort_store_vt, COHORT_STORE_VT_SIZE_1_0)
WHOLE(cohort_strategy_vt, COHORT_STRATEGY_VT_SIZE_1_0)
WHOLE(cohort_tunable_1, COHORT_TUNABLE_SIZE_1_0)

int cohort_layout_is_checked;
