// Service proof/1 of collectives.
#pragma once

#include <cohort/api/host/proof.h>

namespace cohort::host {

const cohort_proof_1& proof_service();

}  // namespace cohort::host
