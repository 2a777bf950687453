/* Service cohort.proof/1: proofs that a peer knows a group's key (cohort_connect_args.key), for collectives that open
 * sockets. Each end of a connection sends random bytes and answers the peer's with a message authentication code (MAC)
 * over them, the two ranks and the direction. Such an answer fits one connection alone, and tells nothing of the key.
 * Available from create on, so in connect. Frozen from 1.0. Threads: [any-thread].
 */
#ifndef COHORT_API_HOST_PROOF_H
#define COHORT_API_HOST_PROOF_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_PROOF_ID "cohort.proof/1"

#define COHORT_PROOF_NBYTES 32 /* of a key and of a MAC */

typedef struct cohort_proof_1 {
  /* Fills `bytes` with random bytes that nobody can predict. */
  cohort_status (*random)(const cohort_host* host, void* bytes, uint64_t nbytes) COHORT_NOEXCEPT;
  /* Writes the MAC of a message to `mac`, COHORT_PROOF_NBYTES bytes: the first half of HMAC-SHA-512 (RFC 2104, FIPS
   * 180-4) with `key`. */
  cohort_status (*mac)(const cohort_host* host, const uint8_t* key, const void* message, uint64_t nbytes,
                       uint8_t* mac) COHORT_NOEXCEPT;
  /* Returns COHORT_OK if `mac` is the message's MAC, else COHORT_UNAUTHENTICATED, each after the same time. */
  cohort_status (*verify)(const cohort_host* host, const uint8_t* key, const void* message, uint64_t nbytes,
                          const uint8_t* mac) COHORT_NOEXCEPT;
} cohort_proof_1;

COHORT_EXTERN_C_END
#endif
