#include "fake_proof.hpp"

#include <sodium.h>

namespace cohort::test {
namespace {

cohort_status random(const cohort_host*, void* bytes, uint64_t nbytes) noexcept {
  ::randombytes_buf(bytes, nbytes);
  return COHORT_OK;
}

cohort_status mac(const cohort_host*, const uint8_t* key, const void* message, uint64_t nbytes, uint8_t* mac) noexcept {
  ::crypto_auth(mac, static_cast<const unsigned char*>(message), nbytes, key);
  return COHORT_OK;
}

cohort_status verify(const cohort_host*, const uint8_t* key, const void* message, uint64_t nbytes,
                     const uint8_t* mac) noexcept {
  const auto* const text = static_cast<const unsigned char*>(message);
  return ::crypto_auth_verify(mac, text, nbytes, key) == 0 ? COHORT_OK : COHORT_UNAUTHENTICATED;
}

}  // namespace

const cohort_proof_1& fake_proof() {
  static constexpr cohort_proof_1 kProof{random, mac, verify};
  return kProof;
}

}  // namespace cohort::test
