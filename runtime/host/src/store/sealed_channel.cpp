#include "store/sealed_channel.hpp"

#include <sodium.h>

#include <array>

namespace cohort::host {
namespace {

constexpr std::string_view kMagic = "cohort 1";
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kSealBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;

static_assert(sizeof(Key) == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

using FrameNonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

FrameNonce nonce_of(uint64_t frame) {
  FrameNonce bytes{};
  for (std::size_t i = 0; i < sizeof frame; ++i) bytes[i] = static_cast<unsigned char>(frame >> 8 * i);
  return bytes;
}

const unsigned char* bytes_at(std::string_view text, std::size_t place = 0) {
  return reinterpret_cast<const unsigned char*>(text.data()) + place;
}

unsigned char* bytes_at(std::string& text, std::size_t place = 0) {
  return reinterpret_cast<unsigned char*>(text.data()) + place;
}

}  // namespace

std::string Greeting::bytes() const {
  return std::string(kMagic) + std::string(nonce.begin(), nonce.end());
}

std::optional<Greeting> Greeting::from(std::string_view bytes) {
  if (bytes.size() != kBytes || !bytes.starts_with(kMagic)) return std::nullopt;
  Greeting greeting{.nonce = {}};
  std::copy(bytes.begin() + kMagic.size(), bytes.end(), greeting.nonce.begin());
  return greeting;
}

SealedChannel::SealedChannel(End own, const Key& common, const Greeting& server, const Greeting& client) {
  const std::string nonces = server.bytes() + client.bytes();
  const Key to_client = derived_key(common, "to client" + nonces),
            to_server = derived_key(common, "to server" + nonces);
  sending_ = own == End::kServer ? to_client : to_server;
  receiving_ = own == End::kServer ? to_server : to_client;
}

std::string SealedChannel::seal(std::string_view text) {
  const std::size_t length = text.size() + kSealBytes;
  std::string frame(kLengthBytes + length, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) frame[i] = static_cast<char>(length >> 8 * i);
  ::crypto_aead_chacha20poly1305_ietf_encrypt(bytes_at(frame, kLengthBytes), nullptr, bytes_at(text), text.size(),
                                              nullptr, 0, nullptr, nonce_of(sent_++).data(), sending_.data());
  return frame;
}

std::optional<std::string> SealedChannel::open(std::string& received, std::size_t longest) {
  if (received.size() < kLengthBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::size_t{bytes_at(received)[i]} << 8 * i;
  if (length < kSealBytes || length > longest + kSealBytes) throw Forged{};
  if (received.size() < kLengthBytes + length) return std::nullopt;
  std::string text(length - kSealBytes, '\0');
  const int failure =
      ::crypto_aead_chacha20poly1305_ietf_decrypt(bytes_at(text), nullptr, nullptr, bytes_at(received, kLengthBytes),
                                                  length, nullptr, 0, nonce_of(received_++).data(), receiving_.data());
  if (failure != 0) throw Forged{};
  received.erase(0, kLengthBytes + length);
  return text;
}

}  // namespace cohort::host
