#include "message.hpp"

#include <cohort/host/error.hpp>

namespace cohort::nodes {
namespace {

constexpr std::size_t kHeaderBytes = 9;
constexpr std::size_t kLongestText = std::size_t{64} << 20;
constexpr std::size_t kLongestProfile = std::size_t{1} << 20;  // that a login shell prints
constexpr std::string_view kKinds = "rxloefzjsga";

void put_number(std::string& text, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(number >> shift & 0xff);
}

uint32_t number_at(std::string_view text) {
  uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number |= uint32_t{static_cast<unsigned char>(text[i])} << 8 * i;
  return number;
}

/// False for a number that no message of this kind has. Which ranks there are the receiver knows.
bool is_possible(MessageKind kind, int32_t number) {
  constexpr int32_t kHighestPort = 65535, kHighestExitCode = 255, kHighestSignal = 64;
  switch (kind) {
    case MessageKind::kListening:
    case MessageKind::kStart:
      return number >= 0 && number <= kHighestPort;
    case MessageKind::kEnded:
      return number >= 0 && number <= kHighestExitCode;
    case MessageKind::kRefused:
    case MessageKind::kFailed:
      return number > 0 && number <= kHighestExitCode;
    case MessageKind::kSignal:
      return number > 0 && number <= kHighestSignal;
    default:
      return true;
  }
}

}  // namespace

void throw_nonsense() {
  throw PeerFailed("a node agent and its launcher do not understand each other; install the same cohort on every host");
}

std::string encode(const Message& message) {
  std::string bytes(1, static_cast<char>(message.kind));
  put_number(bytes, static_cast<uint32_t>(message.number));
  put_number(bytes, static_cast<uint32_t>(message.text.size()));
  return bytes += message.text;
}

void MessageReader::find_greeting() {
  const std::size_t begin = buffer_.find(kGreeting);
  if (begin == std::string::npos) {
    if (buffer_.size() > kLongestProfile) throw_nonsense();
    return;
  }
  buffer_.erase(0, begin + kGreeting.size());
  is_greeted_ = true;
}

std::optional<Message> MessageReader::next() {
  if (!is_greeted_) find_greeting();
  if (!is_greeted_ || buffer_.size() < kHeaderBytes) return std::nullopt;
  const std::size_t length = number_at(std::string_view(buffer_).substr(5));
  if (kKinds.find(buffer_[0]) == std::string_view::npos || length > kLongestText) throw_nonsense();
  if (buffer_.size() < kHeaderBytes + length) return std::nullopt;
  Message message{MessageKind{buffer_[0]}, static_cast<int32_t>(number_at(std::string_view(buffer_).substr(1))),
                  buffer_.substr(kHeaderBytes, length)};
  if (!is_possible(message.kind, message.number)) throw_nonsense();
  buffer_.erase(0, kHeaderBytes + length);
  return message;
}

}  // namespace cohort::nodes
