/* Loggers: destinations for the measured values of a run, such as a dashboard or a service. `--logger=NAME{,key=value}`
 * chooses one; rank 0 runs it, beside the loggers that come with cohort.
 *
 * Ownership: everything that a function receives lives until it returns. Threads: one thread at a time calls a logger.
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
  const cohort_host* host; /* services: log/1 */
  const char* folder;      /* folder of the training, for files: absolute, exists; lives as long as the logger */
} cohort_logger;

/* A measured value, which may be NaN or infinite. It stands in arrays, so it is frozen from 1.0. */
typedef struct cohort_logged_value {
  const char* name;
  double value;
} cohort_logged_value;

/* Filled by the plugin. Only log_values is required; a failure of any function ends the training. */
typedef struct cohort_logger_vt {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Makes `data`, from options that the host has checked. */
  cohort_status (*create)(cohort_logger* logger, const cohort_key_value* options, uint64_t num_options) COHORT_NOEXCEPT;
  /* Releases `data`. */
  void (*destroy)(cohort_logger* logger) COHORT_NOEXCEPT;
  /* Removes the values that an earlier run logged for steps after `step`: this run continues the earlier one and logs
   * them again. Called before anything is logged. */
  cohort_status (*resume_after)(cohort_logger* logger, uint64_t step) COHORT_NOEXCEPT;
  /* Records the `n` parameters that distinguish this run from others of the program. Called once in each run, before
   * any values; also in a run that continues an earlier one, after resume_after. Numbers are decimal. */
  cohort_status (*log_parameters)(cohort_logger* logger, const cohort_key_value* parameters,
                                  uint64_t n) COHORT_NOEXCEPT;
  /* Records `n` values that were measured together, after `step` optimizer steps, in this epoch, from 0. */
  cohort_status (*log_values)(cohort_logger* logger, uint64_t step, int64_t epoch, const cohort_logged_value* values,
                              uint64_t n) COHORT_NOEXCEPT;
  /* Makes all logged values survive a power failure before it returns. A crash of the program must lose none of them
   * even without this call. */
  cohort_status (*flush)(cohort_logger* logger) COHORT_NOEXCEPT;
  /* Tells that the training has reached its end. Called after its last values. */
  cohort_status (*completed)(cohort_logger* logger) COHORT_NOEXCEPT;
  /* Returns the table of this logger with this id, or null. The slot may be null. [any-thread] */
  const void* (*get_extension)(cohort_logger* logger, const char* id)COHORT_NOEXCEPT;
} cohort_logger_vt;
#define COHORT_LOGGER_VT_SIZE_1_0 COHORT_END(cohort_logger_vt, get_extension)

COHORT_EXTERN_C_END
#endif
