// The service proof/1 of collectives.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/host_object.hpp>
#include <cohort/sdk/host.hpp>

#include "communicator/comm_of_parts.hpp"

namespace cohort::host {
namespace {

class ProofService : public testing::Test {
 protected:
  std::array<uint8_t, COHORT_PROOF_NBYTES> key_{};
  Log log_{LogSettings{}};
  HostObject host_{log_, find_service_of_collectives};

  sdk::Proof proof(uint32_t key_nbytes = COHORT_PROOF_NBYTES) const {
    cohort_connect_args group{};
    group.key = key_.data();
    group.key_nbytes = key_nbytes;
    return sdk::Host(host_.get()).proof(group);
  }
};

// RFC 4231, test case 1: the key of 20 bytes 0x0b is padded with zeros by HMAC itself.
TEST_F(ProofService, GivesTheFirstHalfOfHmacSha512) {
  std::fill_n(key_.begin(), 20, uint8_t{0x0b});
  const sdk::Proof::Bytes expected{0x87, 0xaa, 0x7c, 0xde, 0xa5, 0xef, 0x61, 0x9d, 0x4f, 0xf0, 0xb4,
                                   0x24, 0x1a, 0x1d, 0x6c, 0xb0, 0x23, 0x79, 0xf4, 0xe2, 0xce, 0x4e,
                                   0xc2, 0x78, 0x7a, 0xd0, 0xb3, 0x05, 0x45, 0xe1, 0x7c, 0xde};
  EXPECT_EQ(proof().mac("Hi There"), expected);
  EXPECT_TRUE(proof().is_mac_of("Hi There", expected));
}

TEST_F(ProofService, RefusesMacsOfOtherMessagesAndKeys) {
  sdk::Proof::Bytes mac = proof().mac("message");
  EXPECT_FALSE(proof().is_mac_of("massage", mac));
  mac.back() ^= 1;
  EXPECT_FALSE(proof().is_mac_of("message", mac));
  mac.back() ^= 1;
  EXPECT_TRUE(proof().is_mac_of("message", mac));
  key_.front() = 1;
  EXPECT_FALSE(proof().is_mac_of("message", mac));
}

TEST_F(ProofService, DrawsOtherBytesEachTime) {
  std::set<sdk::Proof::Bytes> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(proof().random());
  EXPECT_EQ(drawn.size(), 100u);
}

TEST_F(ProofService, NeedsAKey) {
  EXPECT_THROW(proof(0), sdk::Error);
  const auto* const table =
      static_cast<const cohort_proof_1*>(host_.get()->get_interface(host_.get(), COHORT_PROOF_ID));
  sdk::Proof::Bytes mac{};
  EXPECT_EQ(table->mac(host_.get(), nullptr, "m", 1, mac.data()), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(host_.take_message(COHORT_INVALID_ARGUMENT), "proof/1.mac was given a null pointer");
  EXPECT_EQ(table->verify(host_.get(), key_.data(), nullptr, 1, mac.data()), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(table->random(host_.get(), nullptr, 1), COHORT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cohort::host
