/* What a plugin can ask of the program that loaded it.
 *
 * Ownership: the host owns the object; it lives as long as the component it was given to. Threads: every function may
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
  void* ctx;           /* the host's own; plugins leave it alone */
  const char* name;    /* "cohort" */
  const char* version; /* of the host program's cohort, "MAJOR.MINOR.PATCH" */

  /* The service table with this id ("cohort.log/1"), or null where this host or this moment has none. Tables are listed
   * in cohort/api/host/ and live as long as the host object. [any-thread] */
  const void* (*get_interface)(const struct cohort_host* host, const char* id)COHORT_NOEXCEPT;

  /* Keeps a copy of `message` for the call that this thread is in and returns `code`, so that a plugin can write
   * `return host->fail(host, COHORT_INVALID_ARGUMENT, "bits must be 8");`. [any-thread] */
  cohort_status (*fail)(const struct cohort_host* host, cohort_status code, const char* message) COHORT_NOEXCEPT;

  /* As fail, for a collective whose call has waited for other ranks: `ranks` has their `num_ranks` numbers in the group
   * that `connect` was given, also if the call was about a part of that group. The host gives them the job's numbers
   * and decides, from what all ranks report, which rank caused the failure. [any-thread] */
  cohort_status (*fail_peers)(const struct cohort_host* host, cohort_status code, const int32_t* ranks,
                              uint64_t num_ranks, const char* message) COHORT_NOEXCEPT;
} cohort_host;

COHORT_EXTERN_C_END
#endif
