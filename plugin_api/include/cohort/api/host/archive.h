/* Service cohort.archive/1: values of a strategy in a checkpoint. Frozen from 1.0.
 *
 * For use in save_state and load_state only. Keys are UTF-8 without NUL, at most 256 bytes. A key belongs to the layer
 * that used it: layers may use the same one.
 *
 * A value belongs to the rank that set it, unless it is COHORT_ARCHIVE_SHARED. One value or STATE buffer that is not
 * shared ties the checkpoint to the strategy and the number of ranks that wrote it: the host refuses others with the
 * value's name. If all are shared, any number of ranks resumes; weights and optimizer state that differ between ranks
 * are replaced by their means over ranks.
 */
#ifndef COHORT_API_HOST_ARCHIVE_H
#define COHORT_API_HOST_ARCHIVE_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_ARCHIVE_ID "cohort.archive/1"

/* Flags of a value. */
#define COHORT_ARCHIVE_SHARED \
  1u /* set by all ranks of WORLD, to the same bytes; kept once, given to any number of ranks */

typedef struct cohort_archive_1 {
  /* Sets a value, in save_state. The bytes are copied; a later call with the same key replaces them. `flags`:
   * COHORT_ARCHIVE_... The host compares shared values: if ranks differ, the run ends with code 1 and no checkpoint is
   * written. [main] */
  cohort_status (*set)(const cohort_host* host, const char* key, uint32_t flags, const void* value,
                       uint64_t nbytes) COHORT_NOEXCEPT;
  /* Copies at most `capacity` bytes of a value, in load_state. `*nbytes` is the full length: if it is larger, nothing
   * is copied and the result is COHORT_RESOURCE_EXHAUSTED. COHORT_NOT_FOUND: the checkpoint has no such value.
   * [main] */
  cohort_status (*get)(const cohort_host* host, const char* key, void* value, uint64_t capacity,
                       uint64_t* nbytes) COHORT_NOEXCEPT;
  /* Returns, in load_state, the number of ranks of the run that wrote the checkpoint; 0 at any other time. [main] */
  int32_t (*saved_world_size)(const cohort_host* host) COHORT_NOEXCEPT;
  /* Returns, in load_state, the version of this layer's plugin that wrote the checkpoint, "1.2.0", valid until
   * load_state returns. Null if the run that wrote it did not have this layer, and at any other time. [main] */
  const char* (*saved_version)(const cohort_host* host)COHORT_NOEXCEPT;
} cohort_archive_1;

COHORT_EXTERN_C_END
#endif
