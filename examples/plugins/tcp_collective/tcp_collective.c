/* A collective over TCP: `connect` and `exchange`, with `close` and `abort`. The host composes everything else.
 *
 * Each pair of ranks has a connection (group.c). A message is eight bytes of length and its data. An exchange moves all
 * its messages at once, over sockets that never block, and ends at the deadline, when a connection is lost, or when
 * `abort` wakes it. Nothing is shared between communicators.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "group.h"

#define MOST_BYTES (UINT64_C(1) << 59)
#define BYTES_AT_ONCE (UINT64_C(1) << 30)
enum { CALLS_AT_ONCE = 64 }; /* on one connection, until the deadline, `abort` and other connections get their turn */

/* ---- connecting */

static cohort_status tcp_connect(cohort_collective* c, const cohort_connect_args* args, cohort_comm* comm) {
  group* const g = tcp_make_group(c->host, args);
  if (!g) return c->host->fail(c->host, COHORT_RESOURCE_EXHAUSTED, "tcp_collective: out of memory or of files");
  const cohort_status status = tcp_connect_group(g, args);
  if (status == COHORT_OK)
    comm->data = g;
  else
    tcp_release(g);
  return status;
}

static void tcp_close(cohort_collective* c, cohort_comm* comm) {
  (void)c;
  tcp_release(comm->data);
  comm->data = NULL;
}

/* Runs beside an exchange, on any thread. */
static void tcp_abort(cohort_collective* c, cohort_comm* comm) {
  (void)c;
  group* const g = comm->data;
  const uint64_t one = 1;
  atomic_store(&g->is_aborted, true);
  if (write(g->wake, &one, sizeof one) < 0) return; /* it is awake already */
  for (int32_t peer = 0; peer < g->size; ++peer) {
    if (g->sockets[peer] >= 0) shutdown(g->sockets[peer], SHUT_RDWR);
  }
}

/* ---- exchanging */

/* The next message at or behind `from` that goes to `peer` or comes from it. */
static uint64_t next_of(const cohort_exchange_args* args, uint64_t from, int32_t peer, uint32_t is_send) {
  const cohort_message* const m = args->messages;
  while (from < args->num_messages && (m[from].peer != peer || (m[from].is_send != 0) != (is_send != 0))) ++from;
  return from;
}

/* Refuses what cannot be sent, before anything is: peers would take the rest for part of the next exchange. */
static cohort_status check(const group* g, const cohort_exchange_args* args) {
  for (uint64_t i = 0; i < args->num_messages; ++i) {
    const cohort_message* const m = &args->messages[i];
    if (m->peer < 0 || m->peer >= g->size || m->nbytes > MOST_BYTES || (m->nbytes > 0 && !m->data)) {
      return tcp_fail(g, COHORT_INVALID_ARGUMENT, NULL, 0,
                      "message %llu of an exchange has no peer (%d of %d ranks), no memory, or %llu bytes",
                      (unsigned long long)i, (int)m->peer, (int)g->size, (unsigned long long)m->nbytes);
    }
  }
  uint64_t from = next_of(args, 0, g->rank, 1), to = next_of(args, 0, g->rank, 0);
  while (from < args->num_messages && to < args->num_messages &&
         args->messages[from].nbytes == args->messages[to].nbytes) {
    from = next_of(args, from + 1, g->rank, 1);
    to = next_of(args, to + 1, g->rank, 0);
  }
  if (from == args->num_messages && to == args->num_messages) return COHORT_OK;
  return tcp_fail(g, COHORT_INVALID_ARGUMENT, NULL, 0, "a rank does not receive from itself what it sends itself");
}

static void copy_own(const group* g, const cohort_exchange_args* args) {
  uint64_t from = next_of(args, 0, g->rank, 1), to = next_of(args, 0, g->rank, 0);
  while (from < args->num_messages) {
    const cohort_message* const sent = &args->messages[from];
    if (sent->nbytes > 0) memmove(args->messages[to].data, sent->data, sent->nbytes);
    from = next_of(args, from + 1, g->rank, 1);
    to = next_of(args, to + 1, g->rank, 0);
  }
}

/* The rest of a message as two pieces: of its length, of its data. */
static void rest_of(const cohort_message* m, flow* f, struct iovec pieces[2]) {
  const uint64_t head = f->done < sizeof f->length ? sizeof f->length - f->done : 0;
  const uint64_t moved = head > 0 ? 0 : f->done - sizeof f->length;
  const uint64_t data = m->nbytes - moved;
  pieces[0] = (struct iovec){(char*)&f->length + sizeof f->length - head, head};
  pieces[1] = (struct iovec){(char*)m->data + moved, data < BYTES_AT_ONCE ? data : BYTES_AT_ONCE};
  if (data == 0) pieces[1] = (struct iovec){NULL, 0};
}

static cohort_status lost(const group* g, int32_t peer) {
  return tcp_fail(g, COHORT_UNAVAILABLE, &peer, 1, "the connection to rank %d broke in an exchange",
                  (int)g->job_ranks[peer]);
}

/* Sends until the connection takes no more, or its turn is over. */
static cohort_status send_some(group* g, const cohort_exchange_args* args, int32_t peer) {
  flow* const f = &g->out[peer];
  for (int calls = 0; calls < CALLS_AT_ONCE && f->next < args->num_messages; ++calls) {
    const cohort_message* const m = &args->messages[f->next];
    struct iovec pieces[2];
    f->length = htole64(m->nbytes);
    rest_of(m, f, pieces);
    const struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};
    const ssize_t n = sendmsg(g->sockets[peer], &header, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? COHORT_OK : lost(g, peer);
    f->done += (uint64_t)n;
    if (f->done == sizeof f->length + m->nbytes) *f = (flow){.next = next_of(args, f->next + 1, peer, 1)};
  }
  return COHORT_OK;
}

/* Receives until the connection has no more, or its turn is over. The length comes alone, so that data is read only
 * where it fits. */
static cohort_status receive_some(group* g, const cohort_exchange_args* args, int32_t peer) {
  flow* const f = &g->in[peer];
  for (int calls = 0; calls < CALLS_AT_ONCE && f->next < args->num_messages; ++calls) {
    const cohort_message* const m = &args->messages[f->next];
    struct iovec pieces[2];
    rest_of(m, f, pieces);
    const struct iovec* const piece = &pieces[pieces[0].iov_len > 0 ? 0 : 1];
    const ssize_t n = recv(g->sockets[peer], piece->iov_base, piece->iov_len, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return COHORT_OK;
    if (n <= 0) return lost(g, peer);
    f->done += (uint64_t)n;
    if (f->done == sizeof f->length && le64toh(f->length) != m->nbytes) {
      return tcp_fail(g, COHORT_FAILED_PRECONDITION, &peer, 1,
                      "rank %d sends %llu bytes where rank %d receives %llu; ranks call different operations",
                      (int)g->job_ranks[peer], (unsigned long long)le64toh(f->length), (int)g->job_ranks[g->rank],
                      (unsigned long long)m->nbytes);
    }
    if (f->done == sizeof f->length + m->nbytes) *f = (flow){.next = next_of(args, f->next + 1, peer, 0)};
  }
  return COHORT_OK;
}

/* Fills in what each connection waits for, behind the eventfd; returns how many wait. `peers` gets their ranks. */
static int waiting(group* g, const cohort_exchange_args* args, int32_t* peers) {
  int count = 0;
  g->polled[0] = (struct pollfd){.fd = g->wake, .events = POLLIN};
  for (int32_t peer = 0; peer < g->size; ++peer) {
    const short events = (short)((g->out[peer].next < args->num_messages ? POLLOUT : 0) |
                                 (g->in[peer].next < args->num_messages ? POLLIN : 0));
    if (peer == g->rank || events == 0) continue;
    peers[count++] = peer;
    g->polled[count] = (struct pollfd){.fd = g->sockets[peer], .events = events};
  }
  return count;
}

static cohort_status move(group* g, const cohort_exchange_args* args, int32_t* peers) {
  const int64_t deadline = tcp_now() + g->timeout_ns;
  for (int count = waiting(g, args, peers); count > 0; count = waiting(g, args, peers)) {
    const int ready = poll(g->polled, (nfds_t)count + 1, tcp_left_ms(deadline));
    if (atomic_load(&g->is_aborted)) return tcp_fail(g, COHORT_ABORTED, NULL, 0, "the exchange was aborted");
    if (ready == 0 || tcp_left_ms(deadline) == 0) {
      return tcp_fail(g, COHORT_DEADLINE_EXCEEDED, peers, (uint64_t)count,
                      "rank %d and %d others did not do their part of an exchange within %.1f s",
                      (int)g->job_ranks[peers[0]], count - 1, (double)g->timeout_ns / 1e9);
    }
    cohort_status status = COHORT_OK;
    for (int i = 0; ready > 0 && status == COHORT_OK && i < count; ++i) {
      if (g->polled[i + 1].revents == 0) continue;
      status = send_some(g, args, peers[i]);
      if (status == COHORT_OK) status = receive_some(g, args, peers[i]);
    }
    if (atomic_load(&g->is_aborted)) return tcp_fail(g, COHORT_ABORTED, NULL, 0, "the exchange was aborted");
    if (status != COHORT_OK) return status;
  }
  return COHORT_OK;
}

static cohort_status tcp_exchange(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) {
  (void)c;
  group* const g = comm->data;
  if (atomic_load(&g->is_aborted)) return tcp_fail(g, COHORT_ABORTED, NULL, 0, "the communicator was aborted");
  if (g->is_broken) return tcp_fail(g, COHORT_UNAVAILABLE, NULL, 0, "an earlier exchange has failed half-way");
  cohort_status status = check(g, args);
  if (status != COHORT_OK) return status;
  int32_t* const peers = malloc((size_t)g->size * sizeof *peers);
  if (!peers) return tcp_fail(g, COHORT_RESOURCE_EXHAUSTED, NULL, 0, "out of memory");
  copy_own(g, args);
  for (int32_t peer = 0; peer < g->size; ++peer) {
    g->out[peer] = (flow){.next = next_of(args, 0, peer, 1)};
    g->in[peer] = (flow){.next = next_of(args, 0, peer, 0)};
  }
  status = move(g, args, peers);
  g->is_broken = status != COHORT_OK;
  free(peers);
  return status;
}

/* ---- the plugin */

static const cohort_collective_vt kTable = {
    .struct_size = sizeof(cohort_collective_vt),
    .connect = tcp_connect,
    .close = tcp_close,
    .abort = tcp_abort,
    .exchange = tcp_exchange,
};

static const cohort_component kComponent = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_COLLECTIVE,
    .name = "tcp_collective",
    .summary = "ranks on any machines, over TCP",
    .vtable = &kTable,
};

static const cohort_component* const kComponents[] = {&kComponent, NULL};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.example.tcp_collective",
    .version = "1.0.0",
    .vendor = "Example",
    .license = "MIT",
    .components = kComponents,
};
