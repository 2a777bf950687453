/* Service cohort.log/1: lines in the program's log. The screen shows rank 0's, and warnings of all ranks; files with
 * --log-dir have those of each rank. Frozen from 1.0. Threads: [any-thread]. */
#ifndef COHORT_API_HOST_LOG_H
#define COHORT_API_HOST_LOG_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_LOG_ID "cohort.log/1"

#define COHORT_LOG_DEBUG 1
#define COHORT_LOG_INFO 2
#define COHORT_LOG_WARNING 3
#define COHORT_LOG_ERROR 4

typedef struct cohort_log_1 {
  /* Writes one line. `message` is UTF-8 without a line end; it is copied. */
  void (*log)(const cohort_host* host, int32_t level, const char* message) COHORT_NOEXCEPT;
  /* Returns 1 if lines of this level are written, else 0. */
  uint32_t (*enabled)(const cohort_host* host, int32_t level) COHORT_NOEXCEPT;
} cohort_log_1;

COHORT_EXTERN_C_END
#endif
