// Proofs that a peer knows a group's key, for collectives that open sockets.
//
// Borrows the cohort_host and the key. Functions throw sdk::Error. Threads: any.
#pragma once

#include <array>
#include <string_view>

#include <cohort/api/collective.h>
#include <cohort/api/host/proof.h>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

class Proof {
 public:
  /// Random bytes of a challenge, or a MAC.
  using Bytes = std::array<uint8_t, COHORT_PROOF_NBYTES>;

  /// Throws FAILED_PRECONDITION if the group has no key.
  Proof(const cohort_host* host, const cohort_proof_1& table, const cohort_connect_args& group)
      : host_(host), table_(&table), key_(group.key) {
    if (!key_ || group.key_nbytes != COHORT_PROOF_NBYTES) {
      throw failed_precondition("the host gave no key that the ranks of the group could prove to each other");
    }
  }

  /// Returns bytes that nobody can predict.
  Bytes random() const {
    Bytes bytes{};
    check(table_->random(host_, bytes.data(), bytes.size()));
    return bytes;
  }
  /// Returns the MAC of a message.
  Bytes mac(std::string_view message) const {
    Bytes mac{};
    check(table_->mac(host_, key_, message.data(), message.size(), mac.data()));
    return mac;
  }
  /// Returns whether `mac` is the message's.
  bool is_mac_of(std::string_view message, const Bytes& mac) const {
    const cohort_status status = table_->verify(host_, key_, message.data(), message.size(), mac.data());
    if (status != COHORT_UNAUTHENTICATED) check(status);
    return status == COHORT_OK;
  }

 private:
  const cohort_host* host_;
  const cohort_proof_1* table_;
  const uint8_t* key_;
};

}  // namespace v1
}  // namespace cohort::sdk
