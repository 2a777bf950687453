/* Status codes. Every function of the ABI that can fail returns one; 0 is success.
 *
 * Just before it returns an error, a function passes a text to the host: with `host->fail(host, code, message)`, or
 * with `host->fail_peers` if it waited for other ranks. Without a text the host shows the name of the code. A
 * status of another function of the ABI is returned as it is: its text is kept. Nothing is
 * ever thrown across the ABI. The numbers are those of gRPC; 1, 2, 6 and 7 are reserved.
 */
#ifndef COHORT_API_STATUS_H
#define COHORT_API_STATUS_H

#include <stdint.h>

typedef int32_t cohort_status;

#define COHORT_OK 0
#define COHORT_INVALID_ARGUMENT 3  /* a mistake of the caller; ends the run with exit code 2 if a user caused it */
#define COHORT_DEADLINE_EXCEEDED 4 /* a wait reached its deadline; see host->fail_peers */
#define COHORT_NOT_FOUND 5
#define COHORT_RESOURCE_EXHAUSTED 8  /* out of memory, or the given buffer is too small */
#define COHORT_FAILED_PRECONDITION 9 /* called at the wrong time, or ranks disagree */
#define COHORT_ABORTED 10            /* the communicator was aborted */
#define COHORT_OUT_OF_RANGE 11
#define COHORT_UNIMPLEMENTED 12 /* the callee does not know the type, operation or function; the host uses its own */
#define COHORT_INTERNAL 13
#define COHORT_UNAVAILABLE 14 /* the connection to another rank is lost; see host->fail_peers */
#define COHORT_DATA_LOSS 15
#define COHORT_UNAUTHENTICATED 16

#endif
