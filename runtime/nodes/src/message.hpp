// What a launcher and its node agents say to each other: messages over a byte stream.
//
// Kind (1 byte), number (4 bytes), length of the text (4 bytes), both little-endian, text. What the agent's host writes
// before kGreeting (a login shell's profile) is skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::nodes {

constexpr std::string_view kGreeting = "\ncohort node 3\n";  ///< the number changes with the messages

enum class MessageKind : char {
  // From the agent.
  kReady = 'r',      ///< the job can start here
  kRefused = 'x',    ///< it cannot; number: exit code, text: the sentence
  kListening = 'l',  ///< number: the port of rank 0's rendezvous
  kOutput = 'o',     ///< number: rank, text: what it wrote to standard output
  kErrors = 'e',     ///< the same of standard error; rank -1: the agent itself
  kFailed = 'f',     ///< number: exit code of the first rank that failed, text: what happened to it
  kEnded = 'z',      ///< all ranks have ended; number: exit code
  // From the launcher.
  kJob = 'j',     ///< text: a NodeJob
  kStart = 's',   ///< number: port of the rendezvous, 0: a free one
  kSignal = 'g',  ///< number: a signal for the ranks
  kAlive = 'a',   ///< nothing, so that silence means something
};

struct Message {
  MessageKind kind = MessageKind::kAlive;
  int32_t number = 0;
  std::string text = {};
};

std::string encode(const Message& message);
/// Throws PeerFailed that says that the two sides do not fit together.
[[noreturn]] void throw_nonsense();

/// Finds messages in a stream of bytes.
class MessageReader {
 public:
  /// With a greeting to be found first, or without.
  explicit MessageReader(bool is_greeted) : is_greeted_(is_greeted) {}

  void add(std::string_view bytes) { buffer_ += bytes; }
  bool is_greeted() const { return is_greeted_; }
  /// The next complete message. Throws PeerFailed where the bytes are no messages.
  std::optional<Message> next();

 private:
  void find_greeting();

  std::string buffer_;
  bool is_greeted_;
};

}  // namespace cohort::nodes
