// Values of all ranks.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/message.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Returns the value of each rank, by rank. Collective. Throws PeerFailed, naming `what` a rank has sent, for a message
/// that cannot be read.
template <class T>
std::vector<T> gathered(Runtime& runtime, const T& own, const std::string& what) {
  std::vector<T> values;
  for (const std::string& message : runtime.all_gather(to_message(own))) {
    values.push_back(from_message<T>(message, what));
  }
  return values;
}

}  // namespace cohort
