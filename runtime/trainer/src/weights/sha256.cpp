#include "weights/sha256.hpp"

#include <sodium/utils.h>

#include <array>

namespace cohort {

Sha256::Sha256() {
  crypto_hash_sha256_init(&state_);
}

void Sha256::update(std::span<const std::byte> data) {
  crypto_hash_sha256_update(&state_, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256_final(&state_, digest.data());
  std::string text(2 * digest.size(), '0');
  sodium_bin2hex(text.data(), text.size() + 1, digest.data(), digest.size());
  return text;
}

}  // namespace cohort
