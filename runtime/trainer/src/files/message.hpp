// Messages of structs between the ranks of one program. They are CBOR (RFC 8949), because it keeps all bits of numbers
// and texts, and its lengths have 64 bits.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>

namespace cohort {

/// Returns the bytes of a value that nlohmann/json can write.
template <class T>
std::string to_message(const T& value) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(value), bytes);
  return bytes;
}

/// Returns the value of the bytes. Throws PeerFailed, naming `what` a rank has sent, for other bytes than those of
/// to_message.
template <class T>
T from_message(std::string_view bytes, const std::string& what) {
  try {
    return nlohmann::json::from_cbor(bytes.begin(), bytes.end()).template get<T>();
  } catch (const nlohmann::json::exception&) {
    throw PeerFailed("a rank sent " + what + " that cannot be read; check that all ranks run the same program");
  }
}

}  // namespace cohort
