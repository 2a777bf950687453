/* Service cohort.job/1: the job that a strategy trains in. Frozen from 1.0. Threads: [any-thread]. */
#ifndef COHORT_API_HOST_JOB_H
#define COHORT_API_HOST_JOB_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_JOB_ID "cohort.job/1"

/* Flags of a job. */
#define COHORT_JOB_DETERMINISTIC 1u /* --deterministic: the same inputs give the same bits in every run */

/* Allocated by the plugin, which sets struct_size. The host fills the fields that it covers. Texts live as long as the
 * host object. */
typedef struct cohort_job_info {
  uint32_t struct_size;
  uint32_t flags; /* COHORT_JOB_... */
  int32_t rank;   /* among all ranks of the job */
  int32_t world_size;
  int32_t local_rank; /* among the ranks of this node */
  int32_t local_world_size;
  int32_t node_rank;
  int32_t num_nodes;
  int32_t replicas; /* of the model in each process */
  uint32_t reserved0;
  uint64_t seed;         /* --seed, the same on all ranks */
  const char* run_id;    /* the same on all ranks of a run, different in each run */
  const char* precision; /* "32", "64", "16-mixed", "bf16-mixed", "16-true", "bf16-true" */
  const char* log_dir;   /* --log-dir, absolute; "" if the user gave none */
} cohort_job_info;
#define COHORT_JOB_INFO_SIZE_1_0 COHORT_END(cohort_job_info, log_dir)

typedef struct cohort_job_1 {
  /* Fills the fields of `*info` that its struct_size covers. */
  cohort_status (*get)(const cohort_host* host, cohort_job_info* info) COHORT_NOEXCEPT;
} cohort_job_1;

COHORT_EXTERN_C_END
#endif
