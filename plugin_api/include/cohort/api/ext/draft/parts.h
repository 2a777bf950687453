/* Draft extension cohort.parts/1 of a strategy: the model lies on several devices of a process, one part of it on each.
 *
 * A draft: the id and the structs change without notice until they are frozen.
 *
 * get_extension(s, COHORT_PARTS_ID) returns the table or null. The host asks when it plans the job and when it
 * configures the model; the table lives as long as the strategy's layer. The host runs each batch in pieces, one after
 * another through the parts, so that all devices compute at the same time; it knows which operators belong to a part
 * by the parameters that they read. A batch counts as one micro-batch in the slots of the strategy, whatever the
 * number of its pieces.
 */
#ifndef COHORT_API_EXT_DRAFT_PARTS_H
#define COHORT_API_EXT_DRAFT_PARTS_H

#include "../../status.h"
#include "../../version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_PARTS_ID "cohort.parts/1"

/* Flags of a unit. */
#define COHORT_UNIT_STAYS 1u /* no part begins here: what it does needs the unit before it on the same part */

/* A unit of the model: a module with parameters, and all operators up to the first that reads those of a later unit.
 * Figures are those of one piece of the first batch. */
typedef struct cohort_unit {
  const char* name;         /* of the module: "blocks.3.mlp.0" */
  double seconds;           /* forward and backward */
  uint64_t weight_bytes;    /* parameters, their gradients and what the optimizer keeps for them */
  uint64_t kept_bytes;      /* what forward keeps for backward */
  uint64_t crossing_bytes;  /* what this unit and those before it have made and later units read */
  uint64_t transient_bytes; /* beside all that, for a moment while the unit computes; of a part the most counts */
  uint32_t flags;           /* COHORT_UNIT_... */
  uint32_t reserved0;
} cohort_unit;

typedef struct cohort_cut_args {
  uint32_t struct_size;
  uint32_t num_parts;
  const cohort_unit* units; /* [num_units], in the order in which a step reads them first */
  uint64_t num_units;
  const uint64_t* limits; /* [num_parts] bytes of each device that the job may use; 0: not limited */
  uint32_t num_pieces;    /* of a batch */
  uint32_t reserved0;
  uint32_t* first_units; /* out: [num_parts] the first unit of each part, rising; the first is 0 */
  uint32_t* in_flight;   /* out: [num_parts] pieces that have begun forward on a part and not ended backward there, at
                          * most; 0: not limited */
} cohort_cut_args;

/* Flags of the table. */
#define COHORT_PARTS_FORWARD_FIRST 1u /* backward begins when all pieces have ended forward */

typedef struct cohort_parts_1 {
  uint32_t struct_size;
  /* Of each process, which has as many devices; asked after `plan`. A layer that has not planned may have 0. */
  uint32_t num_parts;
  uint32_t flags; /* COHORT_PARTS_... */
  uint32_t reserved0;
  void* data; /* the layer's own */
  /* Cuts the model into parts. Called once for each training, on all ranks of WORLD with the same arguments, which give
   * the same result. INVALID_ARGUMENT with a message: no cut is possible. [main] */
  cohort_status (*cut)(void* data, const cohort_cut_args* args) COHORT_NOEXCEPT;
} cohort_parts_1;
#define COHORT_PARTS_SIZE_1_0 COHORT_END(cohort_parts_1, cut)

COHORT_EXTERN_C_END
#endif
