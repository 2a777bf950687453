/* What the files of the plugin share: a group of ranks with a connection for each pair. */
#ifndef TCP_COLLECTIVE_GROUP_H
#define TCP_COLLECTIVE_GROUP_H

#include <cohort/api/cohort.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The messages of an exchange in one direction of one connection, in list order. */
typedef struct flow {
  uint64_t next;   /* index of the message under way; num_messages: none is left */
  uint64_t done;   /* bytes of it that have moved, its length included */
  uint64_t length; /* as it travels, in little-endian order */
} flow;

typedef struct group {
  const cohort_host* host;
  const cohort_proof_1* proofs;
  const uint8_t* key; /* of the group, while it connects */
  int32_t rank, size;
  int64_t timeout_ns;
  int wake; /* an eventfd, readable after abort */
  atomic_bool is_aborted;
  bool is_broken;     /* an exchange has failed half-way: what comes next belongs to none */
  int* sockets;       /* [size]; -1: none */
  int32_t* job_ranks; /* [size] */
  flow *out, *in;     /* [size], of the exchange that runs */
  struct pollfd* polled;
} group;

/* Reports a failed call, with the ranks of the group that it waited for; returns `code`. */
__attribute__((format(printf, 5, 6))) cohort_status tcp_fail(const group* g, cohort_status code, const int32_t* peers,
                                                             uint64_t num_peers, const char* format, ...);
/* Returns a clock that only goes forward, in nanoseconds. */
int64_t tcp_now(void);
/* Returns the time to a deadline for poll, in milliseconds rounded up; 0 when it has passed. */
int tcp_left_ms(int64_t deadline);

/* Returns a group without connections, or null if there is no memory or no file left. */
group* tcp_make_group(const cohort_host* host, const cohort_connect_args* args);
/* Closes what is open and frees the group. */
void tcp_release(group* g);
/* Connects the ranks of the group until args->timeout_ns have passed. */
cohort_status tcp_connect_group(group* g, const cohort_connect_args* args);

#endif
