/* Service cohort.archive/1: values of a strategy in a checkpoint. Frozen from 1.0.
 *
 * For use in save_state and load_state only. Values belong to the rank that set them. Keys are UTF-8 without NUL, at
 * most 256 bytes, and belong to the layer that used them: layers may use the same one.
 */
#ifndef COHORT_API_HOST_ARCHIVE_H
#define COHORT_API_HOST_ARCHIVE_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_ARCHIVE_ID "cohort.archive/1"

typedef struct cohort_archive_1 {
  /* In save_state. The bytes are copied. [main] */
  cohort_status (*set)(const cohort_host* host, const char* key, const void* value, uint64_t nbytes) COHORT_NOEXCEPT;
  /* In load_state. Copies at most `capacity` bytes; `*nbytes` is the full length: where it is larger nothing is copied
   * and the result is COHORT_RESOURCE_EXHAUSTED. COHORT_NOT_FOUND: the checkpoint has no such value. [main] */
  cohort_status (*get)(const cohort_host* host, const char* key, void* value, uint64_t capacity,
                       uint64_t* nbytes) COHORT_NOEXCEPT;
} cohort_archive_1;

COHORT_EXTERN_C_END
#endif
