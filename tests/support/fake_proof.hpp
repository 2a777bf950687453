// The service proof/1 of a fake host: libsodium's crypto_auth, without checks.
#pragma once

#include <cohort/api/host/proof.h>

namespace cohort::test {

const cohort_proof_1& fake_proof();

}  // namespace cohort::test
