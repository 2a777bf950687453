// Checks and local copies that every collective makes in an exchange before it sends.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// Calls `with(sent, received)` for each message that `rank` sends to itself. Sends and receives match in list order.
/// Throws INVALID_ARGUMENT if they do not.
template <class With>
void for_own_messages(Span<const cohort_message> messages, int rank, With&& with) {
  std::vector<const cohort_message*> sent, received;
  for (const cohort_message& message : messages) {
    if (message.peer == rank) (message.is_send ? sent : received).push_back(&message);
  }
  if (sent.size() != received.size()) {
    throw invalid_argument("a rank sends itself " + std::to_string(sent.size()) +
                           " messages in an exchange and receives " + std::to_string(received.size()));
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i]->nbytes != received[i]->nbytes) {
      throw invalid_argument("a rank sends itself " + std::to_string(sent[i]->nbytes) +
                             " bytes in an exchange and receives " + std::to_string(received[i]->nbytes));
    }
    with(*sent[i], *received[i]);
  }
}

/// Throws INVALID_ARGUMENT if a message cannot be sent or received. Call it before any message is sent: peers would
/// take a stray message for one of the next exchange.
inline void check_exchange(Span<const cohort_message> messages, int rank, int size) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 59;
  for (const cohort_message& message : messages) {
    if (message.peer < 0 || message.peer >= size) {
      throw invalid_argument("an exchange names rank " + std::to_string(message.peer) + " but there are " +
                             std::to_string(size) + " ranks");
    }
    if (message.nbytes > kMostBytes) {
      throw invalid_argument("an exchange has a message of " + std::to_string(message.nbytes) + " bytes");
    }
    if (message.nbytes != 0 && !message.data) throw invalid_argument("an exchange was given no memory");
  }
  for_own_messages(messages, rank, [](const auto&...) {});
}

/// Copies the messages that `rank` sends to itself. Call check_exchange first.
inline void copy_own(Span<const cohort_message> messages, int rank) {
  for_own_messages(messages, rank, [](const cohort_message& sent, const cohort_message& received) {
    if (sent.nbytes > 0) std::memmove(received.data, sent.data, sent.nbytes);
  });
}

}  // namespace v1
}  // namespace cohort::sdk
