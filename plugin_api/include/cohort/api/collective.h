/* Collectives (process groups): moving and combining tensors between ranks.
 *
 * A collective makes communicators. Operations are stream-ordered: on a device they are enqueued on args->stream, on
 * CPU they are done when the call returns. Threads: [main] one OS thread for the whole run; [lane] one caller at a time
 * per communicator, any thread. Operations on different communicators may run at the same time. All ranks of a
 * communicator call the same operations on it in the same order.
 *
 * Failures: every wait ends at the communicator's timeout with COHORT_DEADLINE_EXCEEDED, or with COHORT_UNAVAILABLE as
 * soon as a connection is lost or a rank has aborted. The message of the call names the failed operation and the kind
 * of failure. A call gives the ranks for which it has waited, if it knows them, to host->fail_peers. It asks no other
 * rank and waits for none, because there is no second deadline. The host hears all ranks, names the one that caused the
 * failure, and ends the others. When the deadline of an enqueued operation passes, the host calls `abort`; enqueued
 * work ends soon afterwards.
 *
 * A collective over other collectives uses them through cohort/api/host/comm.h; it never calls another plugin's table.
 */
#ifndef COHORT_API_COLLECTIVE_H
#define COHORT_API_COLLECTIVE_H

#include "plugin.h"
#include "store.h"
#include "tensor.h"

COHORT_EXTERN_C_BEGIN

/* Reduce operations and their data types. The collective, or the host if it composes the operation, refuses an
 * operation that the type does not have with COHORT_INVALID_ARGUMENT, and a type or operation outside these tables with
 * COHORT_UNIMPLEMENTED: on all ranks alike, before anything is sent.
 *
 *              float32, float64          float16, bfloat16         int8 ... int64, uint8, uint64   bool
 *   sum        yes                       in float32, rounded once  yes, wraps around               no
 *   product    yes                       in float32, rounded once  yes, wraps around               no
 *   mean       sum divided by size       the same, in float32      no                              no
 *   min, max   yes                       yes                       yes                             yes
 *   bit-or     no                        no                        yes                             yes
 *
 * A collective that does not claim COHORT_COLLECTIVE_ROUNDS_ONCE may add up 16-bit types as they are. For a mean it
 * then multiplies the inputs by 1 / size first, so that sums stay finite.
 */
#define COHORT_REDUCE_SUM 1
#define COHORT_REDUCE_MEAN 2
#define COHORT_REDUCE_MIN 3
#define COHORT_REDUCE_MAX 4
#define COHORT_REDUCE_PRODUCT 5
#define COHORT_REDUCE_BIT_OR 6

/* Made by the host. */
typedef struct cohort_collective {
  uint32_t struct_size;
  uint32_t reserved0;
  const struct cohort_collective_vt* vt; /* completed by the host */
  void* data;                            /* private to the plugin, set in create */
  const cohort_host* host;
} cohort_collective;

/* Flags of a communicator, the same on all its ranks. */
#define COHORT_COMM_SHARED_MEMORY                                                                                    \
  1u /* all ranks reach the memory of alloc: operations there cost microseconds and need no copy, so large gradients \
      * are made there, and reduced one by one */

/* Allocated by the host. Before connect the host sets all but flags and data; before split it sets struct_size and
 * collective, and the plugin sets rank and size. */
typedef struct cohort_comm {
  uint32_t struct_size;
  int32_t rank;
  int32_t size;
  uint32_t flags; /* COHORT_COMM_..., set by the plugin */
  cohort_collective* collective;
  void* data; /* private to the plugin */
} cohort_comm;

/* A group of ranks that connects. */
typedef struct cohort_connect_args {
  uint32_t struct_size;
  int32_t rank;
  int32_t size;
  int32_t device_type;
  int32_t device_index;
  int32_t node_rank;        /* of this rank; ranks of one node have memory in common */
  int64_t timeout_ns;       /* nanoseconds, for connect and every later operation */
  cohort_store* store;      /* its keys are already private to this communicator, and may be left there */
  const char* name;         /* of the group, for messages: parts with '/' between, "cohort/RUN/world"; never null */
  const char* master_addr;  /* of the job's first rank, a name that every rank resolves; null if it is not known */
  const int32_t* job_ranks; /* [size]; the job's number of each rank, for messages; null: as in this group */
  int32_t num_nodes;        /* nodes of the group's ranks; 0 if it is not known */
  uint32_t key_nbytes;      /* bytes of `key`: 32; 0 if the group has one rank */
  /* Secret of the ranks of this group, set by the host; comm/1.open ignores its caller's. A collective that opens
   * sockets proves the key to its peers before it takes data, and never sends it. */
  const uint8_t* key;
} cohort_connect_args;
#define COHORT_CONNECT_ARGS_SIZE_1_0 COHORT_END(cohort_connect_args, key)

/* Arguments of an operation, allocated by the host or its caller. The plugin changes none of them. */
typedef struct cohort_op_args {
  uint32_t struct_size;
  int32_t dtype;
  int32_t reduce;    /* COHORT_REDUCE_...; for all_reduce, reduce, reduce_scatter */
  int32_t root;      /* for broadcast, reduce */
  const void* input; /* equal to output: in place; else they do not overlap */
  void* output;
  uint64_t count; /* in elements: each rank's input (reduce_scatter: output; all_to_all: input for each rank) */
  cohort_stream stream;
  /* [size]; null: `count` for every rank. Elements that rank r gives (all_gather), gets (reduce_scatter), or receives
   * from this rank (all_to_all). Equal on all ranks, except in all_to_all. Pieces lie one after another, without
   * gaps. */
  const uint64_t* counts;
  const uint64_t* recv_counts; /* [size]; elements that rank r gives this rank; for all_to_all with counts only */
} cohort_op_args;
#define COHORT_OP_ARGS_SIZE_1_0 COHORT_END(cohort_op_args, recv_counts)

/* One message of an exchange. Frozen from 1.0. */
typedef struct cohort_message {
  void* data;       /* read when sending, written when receiving */
  uint64_t nbytes;  /* 0 is allowed; sender and receiver give the same number */
  int32_t peer;     /* rank in the communicator; the own rank is allowed */
  uint32_t is_send; /* 1 send, 0 receive */
} cohort_message;

typedef struct cohort_exchange_args {
  uint32_t struct_size;
  uint32_t reserved0;
  const cohort_message* messages; /* [num_messages]; messages between a pair match in list order */
  uint64_t num_messages;
  cohort_stream stream;
} cohort_exchange_args;
#define COHORT_EXCHANGE_ARGS_SIZE_1_0 COHORT_END(cohort_exchange_args, stream)

/* Flags of a collective. */
#define COHORT_COLLECTIVE_RANK_ORDERED 1u /* sums are taken left to right in rank order */
#define COHORT_COLLECTIVE_ROUNDS_ONCE 2u  /* sums of 16-bit floating types are taken in float32 and rounded once */
/* Operations of all communicators are called in one order, on all ranks that share the communicators. */
#define COHORT_COLLECTIVE_ONE_ORDER 4u
/* With --deterministic the host composes the sums of a collective that lacks RANK_ORDERED or ROUNDS_ONCE. */

/* Slots of a collective. Required are connect and exchange, `close` if the collective holds anything for a
 * communicator, and `split` and `release` if it has `alloc`. The host composes a missing split: the ranks gather colors
 * and keys, and each part connects as a group of its own. Every operation but `exchange` may be null, or answer
 * COHORT_UNIMPLEMENTED for some data types or reduce operations, the same on every rank and before anything is sent.
 * The host then composes it from `exchange`.
 */
typedef struct cohort_collective_vt {
  uint32_t struct_size;
  uint32_t flags; /* COHORT_COLLECTIVE_... */
  /* Makes `data`, from options that the host has checked. May be null. [main] */
  cohort_status (*create)(cohort_collective* c, const cohort_key_value* options, uint64_t num_options) COHORT_NOEXCEPT;
  /* Releases `data`; not called if create failed. */
  void (*destroy)(cohort_collective* c) COHORT_NOEXCEPT;

  /* Makes a root communicator of args->size ranks. args->store lives until `close`, everything else in args until the
   * call returns. A connect or split that fails leaves nothing behind: the host does not close it. Collective.
   * [main] */
  cohort_status (*connect)(cohort_collective* c, const cohort_connect_args* args, cohort_comm* comm) COHORT_NOEXCEPT;
  /* Makes a communicator of the ranks that give the same color, ordered by key, then by rank. If color < 0, this rank
   * gets none and `part` stays empty. Collective over `comm`. [main] */
  cohort_status (*split)(cohort_collective* c, cohort_comm* comm, int32_t color, int32_t key,
                         cohort_comm* part) COHORT_NOEXCEPT;
  /* Releases a communicator. Local; no operation may be running. [main] */
  void (*close)(cohort_collective* c, cohort_comm* comm) COHORT_NOEXCEPT;
  /* Ends this rank's operations on `comm`: they soon return COHORT_ABORTED, and waiting peers fail. Called between
   * connect and close, and never beside close. [any-thread] */
  void (*abort)(cohort_collective* c, cohort_comm* comm) COHORT_NOEXCEPT;
  /* Returns COHORT_OK, or the error of an enqueued operation on `comm`. A null slot means COHORT_OK always.
   * [any-thread] */
  cohort_status (*async_error)(cohort_collective* c, cohort_comm* comm) COHORT_NOEXCEPT;

  /* Allocates memory of connect's device, which operations on `comm` (a root communicator) and its splits use without a
   * copy: aligned to 64 bytes, zero-filled. Collective: every rank asks for the same size. If the slots are null, the
   * host uses ordinary memory. [main] */
  cohort_status (*alloc)(cohort_collective* c, cohort_comm* comm, uint64_t nbytes, void** memory) COHORT_NOEXCEPT;
  /* Frees memory of alloc. [main] */
  void (*release)(cohort_collective* c, cohort_comm* comm, void* memory) COHORT_NOEXCEPT;

  /* Sends and receives all messages, in flight together; done when all are done. Called on all ranks, also without
   * messages. After a failure that is no refusal the host calls only `abort` and `close` on `comm`. Required. [lane] */
  cohort_status (*exchange)(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) COHORT_NOEXCEPT;
  /* Reduces input elementwise over the ranks into every rank's output. The result has the same bits on all ranks.
   * [lane] */
  cohort_status (*all_reduce)(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  /* Reduces like all_reduce, into args->root's output alone; other ranks' output is not touched and may be null.
   * [lane] */
  cohort_status (*reduce)(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  /* Copies args->root's input to every rank's output. [lane] */
  cohort_status (*broadcast)(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  /* Copies the ranks' inputs one after another into every rank's output. In place: the input lies at its place in the
   * output. [lane] */
  cohort_status (*all_gather)(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  /* Reduces input, which has a piece for each rank, and gives each rank its piece. In place: the output is this rank's
   * piece of the input; the other pieces are undefined afterwards. [lane] */
  cohort_status (*reduce_scatter)(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  /* Sends piece r of input to rank r, and puts the data of rank r into piece r of output. Not in place. [lane] */
  cohort_status (*all_to_all)(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) COHORT_NOEXCEPT;
  /* Blocks until every rank has called it. [lane] */
  cohort_status (*barrier)(cohort_collective* c, cohort_comm* comm) COHORT_NOEXCEPT;

  /* Returns the table of this collective with this id, or null. The slot may be null. [any-thread] */
  const void* (*get_extension)(cohort_collective* c, const char* id)COHORT_NOEXCEPT;
} cohort_collective_vt;
#define COHORT_COLLECTIVE_VT_SIZE_1_0 COHORT_END(cohort_collective_vt, get_extension)

COHORT_EXTERN_C_END
#endif
