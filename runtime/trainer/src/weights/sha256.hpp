// SHA-256 of libsodium.
#pragma once

#include <sodium/crypto_hash_sha256.h>

#include <cstddef>
#include <span>
#include <string>

namespace cohort {

class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> data);
  /// Returns the digest as 64 hex digits. Nothing may be added afterwards.
  std::string finish();

 private:
  crypto_hash_sha256_state state_;
};

}  // namespace cohort
