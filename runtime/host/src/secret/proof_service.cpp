// Random bytes and MACs are libsodium's.
#include "secret/proof_service.hpp"

#include <sodium.h>

#include <cohort/host/job_secret.hpp>

#include "host_object/guarded.hpp"

namespace cohort::host {
namespace {

static_assert(crypto_auth_BYTES == COHORT_PROOF_NBYTES && crypto_auth_KEYBYTES == COHORT_PROOF_NBYTES);

void check_given(bool is_given, const char* call) {
  if (!is_given) throw UserError(std::string(call) + " was given a null pointer");
}

cohort_status random(const cohort_host* host, void* bytes, uint64_t nbytes) noexcept {
  return guarded(host, [&] {
    check_given(bytes || nbytes == 0, "proof/1.random");
    fill_with_random_bits(bytes, nbytes);
    return COHORT_OK;
  });
}

cohort_status mac(const cohort_host* host, const uint8_t* key, const void* message, uint64_t nbytes,
                  uint8_t* mac) noexcept {
  return guarded(host, [&] {
    check_given(key && mac && (message || nbytes == 0), "proof/1.mac");
    ::crypto_auth(mac, static_cast<const unsigned char*>(message), nbytes, key);
    return COHORT_OK;
  });
}

cohort_status verify(const cohort_host* host, const uint8_t* key, const void* message, uint64_t nbytes,
                     const uint8_t* mac) noexcept {
  return guarded(host, [&] {
    check_given(key && mac && (message || nbytes == 0), "proof/1.verify");
    if (::crypto_auth_verify(mac, static_cast<const unsigned char*>(message), nbytes, key) == 0) return COHORT_OK;
    return host->fail(host, COHORT_UNAUTHENTICATED, "the MAC is of another message or key");
  });
}

constexpr cohort_proof_1 kProof{.random = random, .mac = mac, .verify = verify};

}  // namespace

const cohort_proof_1& proof_service() {
  return kProof;
}

}  // namespace cohort::host
