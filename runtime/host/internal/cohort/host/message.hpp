// Structs that processes of one program send each other, by the conversions of nlohmann/json.
//
// Between ranks over communicators, files in memory and ssh they are CBOR (RFC 8949), because it keeps all bits of
// numbers and texts, and its lengths have 64 bits. Through the store and in files they are JSON texts: strangers may
// write there, and only the reader of JSON needs no stack for what is nested.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

/// Returns the JSON text of a value that nlohmann/json can write. Bytes that are no UTF-8 become U+FFFD.
template <class T>
std::string to_text(const T& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Returns nothing for a text that to_text did not write.
template <class T>
std::optional<T> from_text(std::string_view text) try {
  T value = nlohmann::json::parse(text).template get<T>();
  return to_text<T>(value) == text ? std::optional<T>(std::move(value)) : std::nullopt;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace cohort
