// The two directions of a connection whose ends know a key in common.
//
// Each end sends a Greeting with a random nonce in the clear. The keys of the two directions are HMACs of both nonces
// under the common key, so that each connection has keys of its own and no recording of another one can be opened.
// Everything that follows is sealed with ChaCha20-Poly1305 (RFC 8439), whose nonces count the frames: a stranger can
// neither read, nor change, repeat, drop or reorder them. A frame on the wire is the length of what follows (4 bytes,
// little-endian) and the sealed text. Threads: each direction for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cohort/host/job_secret.hpp>

namespace cohort::host {

/// The first bytes of each end, in the clear.
struct Greeting {
  static constexpr std::size_t kBytes = 40;

  Key nonce = random_key();

  std::string bytes() const;
  /// Returns nothing if these are not the bytes of a greeting.
  static std::optional<Greeting> from(std::string_view bytes);
};

/// Sent in the clear by a server before it closes the connection of a client that has another key: without it a client
/// could not tell a refusal from a connection that was cut.
constexpr std::string_view kRefusal = "refused!";

class SealedChannel {
 public:
  enum class End { kServer, kClient };
  SealedChannel(End own, const Key& common, const Greeting& server, const Greeting& client);

  /// Returns the next frame.
  std::string seal(std::string_view text);
  /// Takes the next frame off the front of `received` and returns its text; nothing if it has not arrived whole. Throws
  /// Forged if the other end does not know the key, or if the frame is longer than `longest`.
  std::optional<std::string> open(std::string& received, std::size_t longest);

  struct Forged {};

 private:
  Key sending_, receiving_;
  uint64_t sent_ = 0, received_ = 0;
};

}  // namespace cohort::host
