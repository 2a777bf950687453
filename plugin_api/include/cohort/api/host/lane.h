/* Service cohort.lane/1: threads of the host on which a strategy communicates while the step thread computes. Frozen
 * from 1.0.
 *
 * A lane is a thread with world, node and leaders communicators of its own: inside a task comm/1.get returns that
 * lane's. Tasks of a lane run in submission order, which has to be the same on all ranks of WORLD if they communicate;
 * tasks of different lanes run at the same time. Lane 0 is the one that reduces buckets. Lanes live until the end of
 * the run, also when the layout changes.
 *
 * On a device a lane has a stream of its own, which is current in its tasks (host/stream.h). What a task enqueues runs
 * behind all that the submitting thread's stream had enqueued at `submit`; `wait` puts what the waiting thread's stream
 * does next behind what the task has enqueued, and does not wait for the device.
 *
 * If a collective in use claims COHORT_COLLECTIVE_ONE_ORDER, `submit` returns when the task has returned, so that what
 * one thread submits to several lanes is called in the same order on all ranks. On a device it overlaps all the same.
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
   * the first call for it: in configure_model or layout_ready, collective over all ranks of WORLD, in the same order,
   * while no task is under way. [main] */
  cohort_status (*create)(const cohort_host* host, const char* name, uint32_t* lane) COHORT_NOEXCEPT;
  /* Queues a task; `arg` is borrowed until it is done. Tickets count from 1. [main] [step], or another lane */
  cohort_status (*submit)(const cohort_host* host, uint32_t lane, cohort_lane_task task, void* arg,
                          uint64_t* ticket) COHORT_NOEXCEPT;
  /* Returns when the task and all before it have returned, with `*done` = 1; after the deadline of the run's operations
   * the lane has failed. `done` may be null. With a timeout >= 0 it waits for at most that time, 0: not at all, and
   * `*done` is 1 only if what the tasks enqueued is complete on the device, too. [main] [step], or another lane */
  cohort_status (*wait)(const cohort_host* host, uint32_t lane, uint64_t ticket, int64_t timeout_ns,
                        uint32_t* done) COHORT_NOEXCEPT;
} cohort_lane_1;

COHORT_EXTERN_C_END
#endif
