/* Service cohort.lane/1: threads of the host for the communication of a strategy while the step thread computes. Frozen
 * from 1.0.
 *
 * A lane is a thread with world, node and leaders communicators of its own: comm/1.get returns them inside a task.
 * Tasks of a lane run in submission order. If they communicate, that order has to be the same on all ranks of WORLD.
 * Tasks of different lanes run at the same time. Lane 0 reduces buckets. Lanes live until the end of the run, also when
 * the layout changes.
 *
 * On a device a lane has a stream of its own, which is current in its tasks (host/stream.h). The work of a task runs
 * behind all work that the submitting thread's stream had at `submit`. `wait` puts the later work of the waiting
 * thread's stream behind the work of the task, and does not wait for the device.
 *
 * If a collective in use claims COHORT_COLLECTIVE_ONE_ORDER, `submit` returns when the task has returned. Tasks that
 * one thread submits to several lanes are then called in the same order on all ranks. On a device they overlap all the
 * same.
 *
 * Before a new layout of the buckets, and at the end of the run, the host waits for the tasks of all lanes.
 */
#ifndef COHORT_API_HOST_LANE_H
#define COHORT_API_HOST_LANE_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_LANE_ID "cohort.lane/1"

/* Runs on the lane. A failure ends the lane: later tasks are dropped, and every later call about the lane fails with
 * the failure's message. [lane] */
typedef cohort_status (*cohort_lane_task)(void* arg) COHORT_NOEXCEPT;

typedef struct cohort_lane_1 {
  /* Fills `*lane` with the lane of this name ([a-z][a-z0-9_-]{0,31}; not one of the host's own: default, control, user,
   * world). The first call for a name makes the lane: in configure_model or layout_ready, collective over all ranks of
   * WORLD, in the same order, while no task is under way. Fails within a step unless the lane is there. [main] */
  cohort_status (*create)(const cohort_host* host, const char* name, uint32_t* lane) COHORT_NOEXCEPT;
  /* Queues a task; `arg` is borrowed until it is done. Tickets count from 1. [main] [step], or another lane */
  cohort_status (*submit)(const cohort_host* host, uint32_t lane, cohort_lane_task task, void* arg,
                          uint64_t* ticket) COHORT_NOEXCEPT;
  /* Blocks until the task and all before it have returned, and sets `*done` = 1; at the deadline of the run's
   * operations the lane fails. A ticket that submit has not given is refused. `done` may be null. With a timeout >= 0
   * (nanoseconds) it waits for at most that time, with 0 not at all; `*done` is then 1 only if the enqueued work of the
   * tasks is complete on the device, too. [main] [step], or another lane */
  cohort_status (*wait)(const cohort_host* host, uint32_t lane, uint64_t ticket, int64_t timeout_ns,
                        uint32_t* done) COHORT_NOEXCEPT;
} cohort_lane_1;

COHORT_EXTERN_C_END
#endif
