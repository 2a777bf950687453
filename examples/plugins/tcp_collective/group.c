/* How ranks find each other, and prove that they belong to the group.
 *
 * Every rank listens on a port of its own and leaves its address in the group's store. It connects to all lower ranks
 * and accepts all higher ones. On each connection the accepting side sends a nonce (random bytes). The connecting side
 * answers with its rank, a nonce of its own, and a MAC over both nonces and both ranks, which takes the group's key;
 * the accepting side proves itself likewise. A proof fits one connection and one direction, so that it is of no use to
 * whoever records it. A stranger is shown out, and keeps nobody waiting. IPv4, Linux.
 */
#define _GNU_SOURCE
#include "group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { NONCE_BYTES = 32, PROOF_BYTES = COHORT_PROOF_NBYTES, SPARE_GUESTS = 16 };
#define MAGIC 0x70637463u /* "ctcp" */

/* What a rank leaves in the store. */
typedef struct card {
  uint32_t magic;
  uint32_t address; /* in network order, as the port */
  uint16_t port;
  uint16_t reserved;
  int32_t size;
} card;

/* What the connecting side says. */
typedef struct hello {
  uint32_t magic;
  int32_t rank;
  unsigned char nonce[NONCE_BYTES];
  unsigned char proof[PROOF_BYTES];
} hello;

/* The MAC of this text proves to rank `to`, with whom these nonces were exchanged, that the peer is rank `from`. */
typedef struct claim {
  int32_t from;
  unsigned char nonce_from[NONCE_BYTES];
  int32_t to;
  unsigned char nonce_to[NONCE_BYTES];
} claim;

static claim claim_of(int32_t from, const unsigned char* nonce_from, int32_t to, const unsigned char* nonce_to) {
  claim made = {.from = from, .to = to};
  memcpy(made.nonce_from, nonce_from, NONCE_BYTES);
  memcpy(made.nonce_to, nonce_to, NONCE_BYTES);
  return made;
}

cohort_status tcp_fail(const group* g, cohort_status code, const int32_t* peers, uint64_t num_peers, const char* format,
                       ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return g->host->fail_peers(g->host, code, peers, num_peers, text);
}

int64_t tcp_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int tcp_left_ms(int64_t deadline) {
  const int64_t left = deadline - tcp_now();
  return left <= 0 ? 0 : left > INT64_C(1000000000000) ? 1000000 : (int)((left + 999999) / 1000000);
}

void tcp_release(group* g) {
  for (int32_t rank = 0; g->sockets && rank < g->size; ++rank) {
    if (g->sockets[rank] >= 0) close(g->sockets[rank]);
  }
  if (g->wake >= 0) close(g->wake);
  free(g->sockets);
  free(g->job_ranks);
  free(g->out);
  free(g->in);
  free(g->polled);
  free(g);
}

group* tcp_make_group(const cohort_host* host, const cohort_connect_args* args) {
  const size_t size = (size_t)args->size;
  group* const g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->host = host;
  g->rank = args->rank;
  g->size = args->size;
  g->timeout_ns = args->timeout_ns;
  g->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  g->sockets = malloc(size * sizeof *g->sockets);
  g->job_ranks = malloc(size * sizeof *g->job_ranks);
  g->out = calloc(size, sizeof *g->out);
  g->in = calloc(size, sizeof *g->in);
  g->polled = calloc(size + 1, sizeof *g->polled);
  for (int32_t rank = 0; g->sockets && rank < g->size; ++rank) g->sockets[rank] = -1;
  for (int32_t rank = 0; g->job_ranks && rank < g->size; ++rank) {
    g->job_ranks[rank] = args->job_ranks ? args->job_ranks[rank] : rank;
  }
  if (g->wake >= 0 && g->sockets && g->job_ranks && g->out && g->in && g->polled) return g;
  tcp_release(g);
  return NULL;
}

/* The address by which other machines reach this one: that of the way to the job's first rank. */
static cohort_status own_address(const group* g, const cohort_connect_args* args, uint32_t* address) {
  *address = htonl(INADDR_LOOPBACK);
  if (args->num_nodes == 1 || !args->master_addr) return COHORT_OK;
  struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *found = NULL;
  struct sockaddr_in own = {0};
  socklen_t length = sizeof own;
  bool is_known = false;
  if (getaddrinfo(args->master_addr, "9", &wanted, &found) == 0) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* nothing is sent */
    is_known = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
               getsockname(fd, (struct sockaddr*)&own, &length) == 0;
    if (fd >= 0) close(fd);
    freeaddrinfo(found);
  }
  *address = own.sin_addr.s_addr;
  if (is_known) return COHORT_OK;
  return tcp_fail(g, COHORT_INVALID_ARGUMENT, NULL, 0,
                  "tcp_collective: there is no IPv4 way to the master address '%s'; set MASTER_ADDR",
                  args->master_addr);
}

/* Listens on a free port, and fills in the card. */
static cohort_status listen_on(const group* g, uint32_t address, card* own, int* listener) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = address};
  socklen_t length = sizeof place;
  *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*listener < 0 || bind(*listener, (struct sockaddr*)&place, sizeof place) != 0 ||
      listen(*listener, g->size + SPARE_GUESTS) != 0 ||
      getsockname(*listener, (struct sockaddr*)&place, &length) != 0) {
    return tcp_fail(g, COHORT_INTERNAL, NULL, 0, "tcp_collective cannot listen (%s)", strerror(errno));
  }
  own->magic = MAGIC;
  own->address = address;
  own->port = place.sin_port;
  own->size = g->size;
  return COHORT_OK;
}

static cohort_status store_failed(const group* g, cohort_status status) {
  return tcp_fail(g, status, NULL, 0,
                  "the job's store does not answer: rank 0 or the launcher, which serves it, is gone");
}

static cohort_status read_card(const group* g, cohort_store* store, int32_t peer, int64_t deadline, card* found) {
  char key[32];
  uint64_t nbytes = 0;
  snprintf(key, sizeof key, "tcp/%d", (int)peer);
  const int64_t left = deadline - tcp_now();
  const cohort_status status = store->vt->get(store, key, left > 0 ? left : 1, found, sizeof *found, &nbytes);
  const int name = (int)g->job_ranks[peer];
  if (status == COHORT_DEADLINE_EXCEEDED) {
    return tcp_fail(g, status, &peer, 1, "rank %d did not come to connect within %.1f s; look at its log", name,
                    (double)g->timeout_ns / 1e9);
  }
  if (status != COHORT_OK && status != COHORT_RESOURCE_EXHAUSTED) return store_failed(g, status);
  if (status == COHORT_OK && nbytes == sizeof *found && found->magic == MAGIC && found->size == g->size) return status;
  return tcp_fail(
      g, COHORT_FAILED_PRECONDITION, &peer, 1,
      "rank %d connects another group than this one of %d ranks; start all ranks with the same cohort and plugins",
      name, (int)g->size);
}

static void use_socket(group* g, int32_t peer, int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  g->sockets[peer] = fd;
}

/* Waits until a socket is ready. Returns 0 or a number of errno. */
static int wait_for(int fd, short events, int64_t deadline) {
  struct pollfd polled = {.fd = fd, .events = events};
  int ready = -1;
  do ready = poll(&polled, 1, tcp_left_ms(deadline));
  while (ready < 0 && errno == EINTR);
  return ready == 0 ? ETIMEDOUT : ready < 0 ? errno : 0;
}

static int read_all(int fd, unsigned char* data, size_t nbytes, int64_t deadline) {
  while (nbytes > 0) {
    const int error = wait_for(fd, POLLIN, deadline);
    const ssize_t n = error == 0 ? recv(fd, data, nbytes, 0) : -1;
    if (error != 0) return error;
    if (n == 0) return ECONNRESET;
    if (n < 0 && errno != EAGAIN && errno != EINTR) return errno;
    if (n > 0) data += n, nbytes -= (size_t)n;
  }
  return 0;
}

/* Says who this is and lets the peer prove who it is. Returns 0, EACCES if it does not, or another number of errno. */
static int greet(const group* g, int fd, int32_t peer, int64_t deadline) {
  unsigned char nonce[NONCE_BYTES], proof[PROOF_BYTES];
  hello own = {.magic = MAGIC, .rank = g->rank};
  if (g->proofs->random(g->host, own.nonce, sizeof own.nonce) != COHORT_OK) return EIO;
  int error = read_all(fd, nonce, sizeof nonce, deadline);
  if (error != 0) return error;
  const claim claimed = claim_of(g->rank, own.nonce, peer, nonce);
  if (g->proofs->mac(g->host, g->key, &claimed, sizeof claimed, own.proof) != COHORT_OK) return EIO;
  if (send(fd, &own, sizeof own, MSG_NOSIGNAL) != sizeof own) return errno;
  error = read_all(fd, proof, sizeof proof, deadline);
  if (error != 0) return error;
  const claim expected = claim_of(peer, nonce, g->rank, own.nonce);
  return g->proofs->verify(g->host, g->key, &expected, sizeof expected, proof) == COHORT_OK ? 0 : EACCES;
}

/* Connects to a lower rank, which listens. */
static cohort_status call(group* g, const card* host, int32_t peer, int64_t deadline) {
  const struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = host->port, .sin_addr.s_addr = host->address};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tcp_fail(g, COHORT_INTERNAL, NULL, 0, "tcp_collective has no socket (%s)", strerror(errno));
  use_socket(g, peer, fd);
  int error = connect(fd, (const struct sockaddr*)&place, sizeof place) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t length = sizeof error;
    error = wait_for(fd, POLLOUT, deadline);
    if (error == 0) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0) error = greet(g, fd, peer, deadline);
  if (error == 0) return COHORT_OK;
  const cohort_status status = error == ETIMEDOUT ? COHORT_DEADLINE_EXCEEDED
                               : error == EACCES  ? COHORT_UNAUTHENTICATED
                                                  : COHORT_UNAVAILABLE;
  return tcp_fail(g, status, &peer, 1, "tcp_collective cannot connect to rank %d (%s)", (int)g->job_ranks[peer],
                  error == EACCES ? "it does not know the group's key" : strerror(error));
}

/* A connection that has not said all of its hello. */
typedef struct guest {
  int fd;
  unsigned char nonce[NONCE_BYTES]; /* that it was sent */
  size_t have;
  hello said;
} guest;

/* Reads on; returns whether the guest stays one. A stranger is shown out. */
static bool hear(group* g, guest* who) {
  const ssize_t n = recv(who->fd, (char*)&who->said + who->have, sizeof who->said - who->have, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  who->have += n > 0 ? (size_t)n : 0;
  if (n > 0 && who->have < sizeof who->said) return true;
  const hello* const said = &who->said;
  unsigned char proof[PROOF_BYTES];
  const claim expected = claim_of(said->rank, said->nonce, g->rank, who->nonce);
  bool is_rank = n > 0 && said->magic == MAGIC && said->rank > g->rank && said->rank < g->size &&
                 g->sockets[said->rank] < 0 &&
                 g->proofs->verify(g->host, g->key, &expected, sizeof expected, said->proof) == COHORT_OK;
  if (is_rank) {
    const claim own = claim_of(g->rank, who->nonce, said->rank, said->nonce);
    is_rank = g->proofs->mac(g->host, g->key, &own, sizeof own, proof) == COHORT_OK &&
              send(who->fd, proof, sizeof proof, MSG_NOSIGNAL) == sizeof proof;
  }
  if (is_rank)
    use_socket(g, said->rank, who->fd);
  else
    close(who->fd);
  return false;
}

static int32_t missing(const group* g, int32_t* ranks) {
  int32_t count = 0;
  for (int32_t rank = g->rank + 1; rank < g->size; ++rank) {
    if (g->sockets[rank] < 0) ranks[count++] = rank;
  }
  return count;
}

/* Accepts a connection, and sends it a nonce. */
static void let_in(const group* g, int listener, guest* guests, int* num_guests) {
  guest new = {.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (new.fd < 0) return;
  if (g->proofs->random(g->host, new.nonce, sizeof new.nonce) == COHORT_OK &&
      send(new.fd, new.nonce, sizeof new.nonce, MSG_NOSIGNAL) == sizeof new.nonce)
    guests[(*num_guests)++] = new;
  else
    close(new.fd);
}

/* Accepts all higher ranks. Guests that say nothing keep nobody waiting: the oldest one goes if there are too many. */
static cohort_status accept_ranks(group* g, int listener, int64_t deadline) {
  const int most = g->size + SPARE_GUESTS;
  guest* const guests = calloc((size_t)most, sizeof *guests);
  struct pollfd* const polled = calloc((size_t)most + 1, sizeof *polled);
  int32_t* const late = calloc((size_t)g->size, sizeof *late);
  int num_guests = 0;
  bool is_late = false;
  while (guests && polled && late && !is_late && missing(g, late) > 0) {
    polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < num_guests; ++i) polled[i + 1] = (struct pollfd){.fd = guests[i].fd, .events = POLLIN};
    poll(polled, (nfds_t)num_guests + 1, tcp_left_ms(deadline));
    is_late = tcp_left_ms(deadline) == 0; /* guests, or a process without free descriptors, may keep poll busy */
    int stay = 0;
    for (int i = 0; i < num_guests; ++i) {
      if (polled[i + 1].revents == 0 || hear(g, &guests[i])) guests[stay++] = guests[i];
    }
    num_guests = stay;
    if (num_guests == most) {
      close(guests[0].fd);
      memmove(guests, guests + 1, (size_t)--num_guests * sizeof *guests);
    }
    if (polled[0].revents) let_in(g, listener, guests, &num_guests);
  }
  for (int i = 0; i < num_guests; ++i) close(guests[i].fd);
  const int32_t count = late ? missing(g, late) : g->size;
  cohort_status status = COHORT_OK;
  if (!guests || !polled || !late)
    status = tcp_fail(g, COHORT_RESOURCE_EXHAUSTED, NULL, 0, "out of memory");
  else if (count > 0) {
    status = tcp_fail(g, COHORT_DEADLINE_EXCEEDED, late, (uint64_t)count,
                      "rank %d did not come to connect within %.1f s (%d of %d ranks are missing); look at its log",
                      (int)g->job_ranks[late[0]], (double)g->timeout_ns / 1e9, (int)count, (int)g->size);
  }
  free(guests);
  free(polled);
  free(late);
  return status;
}

cohort_status tcp_connect_group(group* g, const cohort_connect_args* args) {
  const int64_t deadline = tcp_now() + g->timeout_ns;
  card own = {0};
  char key[32];
  uint32_t address = 0;
  int listener = -1;
  g->proofs = g->host->get_interface(g->host, COHORT_PROOF_ID);
  g->key = args->key;
  if (g->size > 1 && (!g->proofs || args->key_nbytes != COHORT_PROOF_NBYTES)) {
    return tcp_fail(g, COHORT_FAILED_PRECONDITION, NULL, 0, "tcp_collective was given no key, or no way to prove it");
  }
  snprintf(key, sizeof key, "tcp/%d", (int)g->rank);
  cohort_status status = own_address(g, args, &address);
  if (status == COHORT_OK) status = listen_on(g, address, &own, &listener);
  if (status == COHORT_OK) {
    status = args->store->vt->set(args->store, key, &own, sizeof own);
    if (status != COHORT_OK) status = store_failed(g, status);
  }
  for (int32_t peer = 0; status == COHORT_OK && peer < g->rank; ++peer) {
    card found = {0};
    status = read_card(g, args->store, peer, deadline, &found);
    if (status == COHORT_OK) status = call(g, &found, peer, deadline);
  }
  if (status == COHORT_OK) status = accept_ranks(g, listener, deadline);
  if (listener >= 0) close(listener);
  g->key = NULL; /* the host's, for this call alone */
  return status;
}
