/* Service cohort.comm/1: communicators of the running job and operations on them. Frozen from 1.0.
 *
 * For strategies: every lane has communicators of its own. An operation runs on the lane of its communicator: at once
 * if that lane calls; else the call waits for it, ordered behind the earlier work of the calling thread's stream and
 * before its later work. Its payload bytes are counted. An operation that is refused before anything is sent
 * (COHORT_UNIMPLEMENTED, COHORT_INVALID_ARGUMENT) ends no lane; every other failure ends its lane.
 *
 * For collectives over other collectives: each group is opened in `connect`, split in `connect` and `split`, and closed
 * in `close`. An operation runs on the calling thread, at once and uncounted; lanes, `bind` and `get` mean nothing
 * here.
 *
 * A communicator belongs to the component that opened or split it, and no other may use it. Communicators of `get`
 * belong to the host and serve every layer. The host closes the remaining ones at the end of the run.
 */
#ifndef COHORT_API_HOST_COMM_H
#define COHORT_API_HOST_COMM_H

#include "../collective.h"
#include "../strategy.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_COMM_ID "cohort.comm/1"

/* Roles. A strategy that works on a bucket asks for the bucket's own (cohort_bucket.role). */
#define COHORT_ROLE_WORLD \
  1                        /* the ranks that train the same parameters: all, unless a host spreads a model over ranks */
#define COHORT_ROLE_NODE 2 /* ranks of WORLD on this node */
#define COHORT_ROLE_LEADERS 3 /* the first rank of WORLD on every node; null on other ranks */
#define COHORT_ROLE_JOB 4     /* all ranks of the job */

typedef struct cohort_comm_1 {
  /* Opens a communicator of a group with a collective by spec ("shm", "gloo,iface=eth0"; null: the chosen one). `group`
   * reaches that collective unchanged. All ranks of the group share its store; its name differs from every other group
   * opened over that store. A strategy calls it in init_dist_connection, configure_model or layout_ready; in
   * configure_model and layout_ready `group->store` may be null, for the job's own. Collective over the group.
   * [main] */
  cohort_status (*open)(const cohort_host* host, const char* collective, const cohort_connect_args* group,
                        cohort_comm** comm) COHORT_NOEXCEPT;
  /* Gives the host the communicator of all ranks, in init_dist_connection. The host splits `node`, `leaders` and the
   * lanes' own from it. [main] */
  cohort_status (*bind)(const cohort_host* host, cohort_comm* comm) COHORT_NOEXCEPT;
  /* Returns the calling lane's communicator for a role, or the default lane's outside a lane; null for LEADERS on a
   * rank that is no leader, and for a role unknown to the host. WORLD and JOB exist after init_dist_connection, also
   * with one rank. */
  cohort_comm* (*get)(const cohort_host* host, int32_t role)COHORT_NOEXCEPT;
  /* Makes a communicator of the ranks that give the same color, ordered by key, then by rank. If color < 0, this rank
   * gets none, and `*part` is null. The part outlives a training: configure_model of a later one keeps it, or closes
   * it. Its operations run on `lane` (0: the lane that reduces buckets); `name` ([a-z][a-z0-9_-]{0,31}) is for
   * messages. Collective over `comm`, in the same order on all ranks, while no task is under way. [main] */
  cohort_status (*split)(const cohort_host* host, cohort_comm* comm, uint32_t lane, const char* name, int32_t color,
                         int32_t key, cohort_comm** part) COHORT_NOEXCEPT;
  /* Closes a communicator of `open` or `split`, after all communicators split from it. Local; no operation may be
   * running, and its memory is no longer used. [main] */
  cohort_status (*close)(const cohort_host* host, cohort_comm* comm) COHORT_NOEXCEPT;
  /* Ends this rank's operations on a communicator of `open` or `split`: they soon return COHORT_ABORTED, and waiting
   * peers fail. [any-thread] */
  cohort_status (*abort)(const cohort_host* host, cohort_comm* comm) COHORT_NOEXCEPT;
  /* Allocates memory of the root of `comm`: of `comm` itself, or of the communicator that it was split from. Operations
   * on the root and all its parts use it without a copy. Ordinary memory if the collective has none. Zero-filled,
   * aligned to 64 bytes. Collective over the root: each of its ranks asks for the same size. [main] */
  cohort_status (*alloc)(const cohort_host* host, cohort_comm* comm, uint64_t nbytes, void** memory) COHORT_NOEXCEPT;
  /* Frees memory of alloc. [main] */
  cohort_status (*release)(const cohort_host* host, cohort_comm* comm, void* memory) COHORT_NOEXCEPT;
  /* The operations of cohort/api/collective.h, with the same `args`. Every rank of the communicator calls each of them,
   * exchange also without messages. [lane] [step] [main] */
  cohort_status (*exchange)(const cohort_host* host, cohort_comm* comm,
                            const cohort_exchange_args* args) COHORT_NOEXCEPT;
  cohort_status (*all_reduce)(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  cohort_status (*reduce)(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  cohort_status (*broadcast)(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  cohort_status (*all_gather)(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  cohort_status (*reduce_scatter)(const cohort_host* host, cohort_comm* comm,
                                  const cohort_op_args* args) COHORT_NOEXCEPT;
  cohort_status (*all_to_all)(const cohort_host* host, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  cohort_status (*barrier)(const cohort_host* host, cohort_comm* comm) COHORT_NOEXCEPT;
} cohort_comm_1;

COHORT_EXTERN_C_END
#endif
