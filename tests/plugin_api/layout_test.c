/* The layout of the ABI is what layout_64bit.inc says; a difference does not compile. */
#include <cohort/api/cohort.h>
#include <cohort/api/step_graph.h>

#define LAYOUT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved");
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has another size");

#if UINTPTR_MAX == UINT64_MAX
#include "layout_64bit.inc"
#endif

int cohort_layout_is_checked;
