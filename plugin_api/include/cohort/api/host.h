/* The host object: the services of the program that loaded a plugin.
 *
 * Ownership: the host owns the object. It lives as long as the component that received it. Threads: every function may
 * be called from any thread.
 */
#ifndef COHORT_API_HOST_H
#define COHORT_API_HOST_H

#include "status.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

typedef struct cohort_host {
  uint32_t struct_size;
  uint32_t abi;        /* COHORT_ABI_VERSION of the host */
  void* ctx;           /* private to the host; plugins leave it alone */
  const char* name;    /* "cohort" */
  const char* version; /* version of the host program's cohort, "MAJOR.MINOR.PATCH" */

  /* Returns the service table with this id ("cohort.log/1"), or null if this host has none, or has none at this moment.
   * The headers in cohort/api/host/ declare the tables, which live as long as the host object. [any-thread] */
  const void* (*get_interface)(const struct cohort_host* host, const char* id)COHORT_NOEXCEPT;

  /* Keeps a copy of `message` for the call in progress on this thread and returns `code`, so that a plugin can write
   * `return host->fail(host, COHORT_INVALID_ARGUMENT, "bits must be 8");`. [any-thread] */
  cohort_status (*fail)(const struct cohort_host* host, cohort_status code, const char* message) COHORT_NOEXCEPT;

  /* Does the same as fail, for a collective that has waited for other ranks during the call. `ranks` has their
   * `num_ranks` numbers in the group that `connect` received, also if the call was about a part of that group. The host
   * translates them into the job's numbers and finds, from the reports of all ranks, the rank that caused the failure.
   * [any-thread] */
  cohort_status (*fail_peers)(const struct cohort_host* host, cohort_status code, const int32_t* ranks,
                              uint64_t num_ranks, const char* message) COHORT_NOEXCEPT;
} cohort_host;

COHORT_EXTERN_C_END
#endif
