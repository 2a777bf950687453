/* Service cohort.lane/1: threads of the host on which a strategy communicates while the step thread computes. Frozen
 * from 1.0.
 *
 * A lane is a thread with world, node and leaders communicators of its own: inside a task comm/1.get returns that
 * lane's. Tasks of a lane run in submission order, which has to be the same on all ranks if they communicate; tasks of
 * different lanes run at the same time. Lane 0 is the one that reduces buckets. Lanes live until the end of the run,
 * also when the layout changes.
 *
 * Before buckets are laid out anew, and at the end of the run, the host waits for the tasks of all lanes.
 */
#ifndef COHORT_API_HOST_LANE_H
#define COHORT_API_HOST_LANE_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_LANE_ID "cohort.lane/1"

/* Runs on the lane. A failure ends the lane: later tasks are dropped, and every later call about the lane fails with
 * its message. [lane] */
typedef cohort_status (*cohort_lane_task)(void* arg) COHORT_NOEXCEPT;

typedef struct cohort_lane_1 {
  /* The lane of this name ([a-z][a-z0-9_-]{0,31}; not one of the host's own: default, control, user, world), made at
   * the first call for it: in configure_model or layout_ready, collective over all ranks, in the same order, while no
   * task is under way. [main] */
  cohort_status (*create)(const cohort_host* host, const char* name, uint32_t* lane) COHORT_NOEXCEPT;
  /* Queues a task; `arg` is borrowed until it is done. Tickets count from 1. [main] [step], or another lane */
  cohort_status (*submit)(const cohort_host* host, uint32_t lane, cohort_lane_task task, void* arg,
                          uint64_t* ticket) COHORT_NOEXCEPT;
  /* Returns when the task and all before it are done, with `*done` = 1, or when `timeout_ns` have passed, with `*done`
   * = 0. 0: at once; below 0: after the deadline of the run's operations, whose passing is a failure of the lane, and
   * `done` may be null. [main] [step], or another lane */
  cohort_status (*wait)(const cohort_host* host, uint32_t lane, uint64_t ticket, int64_t timeout_ns,
                        uint32_t* done) COHORT_NOEXCEPT;
} cohort_lane_1;

COHORT_EXTERN_C_END
#endif
