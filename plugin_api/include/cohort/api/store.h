/* A key-value store that all ranks of a job share, for rendezvous.
 *
 * Ownership: the maker of a store keeps it alive until after `shutdown`. Threads: every function is [any-thread]; a
 * thread that waits blocks no other; a store may poll. A plugin may implement a store (over etcd, a file system, ...)
 * and hand it over in cohort_dist_args; every function is required. Keys are UTF-8 without NUL, at most 1,024 bytes;
 * values are bytes, at most 64 MiB. Deadlines are relative, in nanoseconds.
 */
#ifndef COHORT_API_STORE_H
#define COHORT_API_STORE_H

#include "status.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

/* Frozen from 1.0. */
typedef struct cohort_store {
  const struct cohort_store_vt* vt;
  void* data;
} cohort_store;

typedef struct cohort_store_vt {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Sets the value of a key to `nbytes` bytes. */
  cohort_status (*set)(cohort_store* store, const char* key, const void* value, uint64_t nbytes) COHORT_NOEXCEPT;
  /* Blocks until the key exists, then copies at most `capacity` bytes of its value. `*nbytes` is the full length; if it
   * is larger than `capacity`, nothing is copied and the result is COHORT_RESOURCE_EXHAUSTED. COHORT_DEADLINE_EXCEEDED:
   * the key does not exist after `timeout_ns`, at once if that is 0 or less. */
  cohort_status (*get)(cohort_store* store, const char* key, int64_t timeout_ns, void* value, uint64_t capacity,
                       uint64_t* nbytes) COHORT_NOEXCEPT;
  /* Does the same as get without waiting; returns COHORT_NOT_FOUND if there is no such key. */
  cohort_status (*try_get)(cohort_store* store, const char* key, void* value, uint64_t capacity,
                           uint64_t* nbytes) COHORT_NOEXCEPT;
  /* Adds `amount` to an integer key (a missing one counts as 0) and fills `*sum`. */
  cohort_status (*add)(cohort_store* store, const char* key, int64_t amount, int64_t* sum) COHORT_NOEXCEPT;
  /* Blocks until all keys exist; at the deadline as get. */
  cohort_status (*wait)(cohort_store* store, const char* const* keys, uint64_t num_keys,
                        int64_t timeout_ns) COHORT_NOEXCEPT;
  /* Deletes a key; a missing one is no error. */
  cohort_status (*remove)(cohort_store* store, const char* key) COHORT_NOEXCEPT;
  /* Fills `*num_keys` with the number of keys. */
  cohort_status (*count)(cohort_store* store, uint64_t* num_keys) COHORT_NOEXCEPT;
} cohort_store_vt;
#define COHORT_STORE_VT_SIZE_1_0 COHORT_END(cohort_store_vt, count)

COHORT_EXTERN_C_END
#endif
