/* Loggers: where a run writes what it measures, as a dashboard or a service. `--logger=NAME{,key=value}` chooses one;
 * rank 0 has it, beside those that come with cohort.
 *
 * Ownership: everything given to a function lives until it returns. Threads: one at a time calls a logger.
 */
#ifndef COHORT_API_LOGGER_H
#define COHORT_API_LOGGER_H

#include "plugin.h"

COHORT_EXTERN_C_BEGIN

/* Made by the host, one for each training (fit) of the program. */
typedef struct cohort_logger {
  uint32_t struct_size;
  uint32_t reserved0;
  const struct cohort_logger_vt* vt;
  void* data;
  const cohort_host* host; /* log/1 */
  const char* folder;      /* of the training, for files: absolute, exists; lives as long as the logger */
} cohort_logger;

/* A measured value, which may be NaN or infinite. Frozen from 1.0: it stands in arrays. */
typedef struct cohort_logged_value {
  const char* name;
  double value;
} cohort_logged_value;

/* Filled by the plugin. Only log_values is required; a failure of any function ends the training. */
typedef struct cohort_logger_vt {
  uint32_t struct_size;
  uint32_t reserved0;
  cohort_status (*create)(cohort_logger* logger, const cohort_key_value* options, uint64_t num_options) COHORT_NOEXCEPT;
  void (*destroy)(cohort_logger* logger) COHORT_NOEXCEPT;
  /* The run goes on with an earlier one after `step`: what that one has logged for later steps is to be removed, and is
   * logged again. Before anything is logged. */
  cohort_status (*resume_after)(cohort_logger* logger, uint64_t step) COHORT_NOEXCEPT;
  /* What distinguishes this run from others of the program; once, before any values. Numbers are decimal. */
  cohort_status (*log_parameters)(cohort_logger* logger, const cohort_key_value* parameters,
                                  uint64_t n) COHORT_NOEXCEPT;
  /* Values that were measured together, after `step` optimizer steps, in this epoch, from 0. */
  cohort_status (*log_values)(cohort_logger* logger, uint64_t step, int64_t epoch, const cohort_logged_value* values,
                              uint64_t n) COHORT_NOEXCEPT;
  /* What was logged has to survive a failure of power when this returns. A crash of the program must lose none of it
   * even without this call. */
  cohort_status (*flush)(cohort_logger* logger) COHORT_NOEXCEPT;
  /* After the last values of a training that has reached its end. */
  cohort_status (*completed)(cohort_logger* logger) COHORT_NOEXCEPT;
  /* A table of this logger by id, or null. May be null. [any-thread] */
  const void* (*get_extension)(cohort_logger* logger, const char* id)COHORT_NOEXCEPT;
} cohort_logger_vt;
#define COHORT_LOGGER_VT_SIZE_1_0 COHORT_END(cohort_logger_vt, get_extension)

COHORT_EXTERN_C_END
#endif
