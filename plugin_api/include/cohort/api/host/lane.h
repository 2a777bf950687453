/* Service cohort.lane/1: threads of the host on which a strategy communicates while the step thread computes. Frozen.
 *
 * A lane is a thread with world, node and leaders communicators of its own: in its works comm/1.get gives those. Works
 * of one lane run one after the other, in the order in which they were submitted, which has to be the same on all ranks
 * where they communicate; works of different lanes run at the same time. Lane 0 is the one that reduces buckets. Lanes
 * live until the end of the run, also when the layout changes.
 *
 * Before buckets are laid out anew, and at the end of the run, the host waits for the works of all lanes.
 */
#ifndef COHORT_API_HOST_LANE_H
#define COHORT_API_HOST_LANE_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_LANE_ID "cohort.lane/1"

/* Runs on the lane. A failure ends the lane: later works are dropped, and every later call about the lane fails with
 * its message. [lane] */
typedef cohort_status (*cohort_lane_work)(void* arg) COHORT_NOEXCEPT;

typedef struct cohort_lane_1 {
  /* The lane of this name ([a-z][a-z0-9_-]{0,31}; not one of the host's own: default, control, user, world), made at
   * the first call for it: in configure_model or layout_ready, collective over all ranks, in the same order, while no
   * work is under way. [main] */
  cohort_status (*create)(const cohort_host* host, const char* name, uint32_t* lane) COHORT_NOEXCEPT;
  /* Queues a work; `arg` is borrowed until it is done. Tickets count from 1. [main] [step], or another lane */
  cohort_status (*submit)(const cohort_host* host, uint32_t lane, cohort_lane_work work, void* arg,
                          uint64_t* ticket) COHORT_NOEXCEPT;
  /* Returns when the work and all before it are done, with `*done` = 1, or when `timeout_ns` have passed, with `*done`
   * = 0. 0: at once; below 0: after the deadline of the run's operations, whose passing is a failure of the lane, and
   * `done` may be null. [main] [step], or another lane */
  cohort_status (*wait)(const cohort_host* host, uint32_t lane, uint64_t ticket, int64_t timeout_ns,
                        uint32_t* done) COHORT_NOEXCEPT;
} cohort_lane_1;

COHORT_EXTERN_C_END
#endif
