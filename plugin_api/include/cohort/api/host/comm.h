/* Service cohort.comm/1: communicators of the running job and operations on them. Frozen.
 *
 * Every lane has communicators of its own, split from those that were bound; an operation runs only on its
 * communicator's lane. Ownership: the host owns every communicator given out here until the end of the run.
 */
#ifndef COHORT_API_HOST_COMM_H
#define COHORT_API_HOST_COMM_H

#include "../collective.h"
#include "../strategy.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_COMM_ID "cohort.comm/1"

/* Roles. */
#define COHORT_ROLE_WORLD 1   /* all ranks */
#define COHORT_ROLE_NODE 2    /* the ranks of this node */
#define COHORT_ROLE_LEADERS 3 /* local rank 0 of every node; null on other ranks */

typedef struct cohort_comm_1 {
  /* Opens a communicator of a group with a collective by spec ("shm", "gloo,iface=eth0"; null: the one that was
   * chosen): in init_dist_connection of a strategy, or in `connect` of a collective that is made of others. `group` is
   * as that collective will see it, with a store that all of the group share and a name that tells it from every other
   * group opened over that store. Collective over the group. [main] */
  cohort_status (*open)(const cohort_host* host, const char* collective, const cohort_connect_args* group,
                        cohort_comm** comm) COHORT_NOEXCEPT;
  /* Gives the host the communicator of all ranks; `node`, `leaders` and the lanes' own are split from it. [main] */
  cohort_status (*bind)(const cohort_host* host, int32_t role, cohort_comm* comm) COHORT_NOEXCEPT;
  /* The calling lane's communicator for a role; null for LEADERS on a rank that is none. Outside a lane: that of the
   * default lane. WORLD is there after init_dist_connection, with one rank, too. */
  cohort_comm* (*get)(const cohort_host* host, int32_t role)COHORT_NOEXCEPT;
  /* Operations; `args` as in cohort/api/collective.h. In a lane they run at once; outside one they run on the default
   * lane and are waited for. Payload bytes are counted. [lane] [step] [main] */
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
