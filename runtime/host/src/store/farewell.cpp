#include "store/farewell.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

constexpr std::chrono::seconds kLongestFarewell{5};

std::string in_seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

std::string join(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

std::string published_by_rank0(const Agreement& agreement, const std::string& topic, const std::string& key) {
  // Twice the timeout, because rank 0 may wait a whole timeout for other ranks before it writes.
  auto value = agreement.store.get(key, 2 * agreement.timeout);
  if (!value) {
    throw PeerFailed(agreement.who + " heard nothing from rank 0 about " + topic + " within " +
                     in_seconds(2 * agreement.timeout) + "; see rank 0's log");
  }
  return *value;
}

void leave_together(const Agreement& agreement, const std::string& key, int readers) {
  agreement.store.add(key, 1);
  const auto deadline = std::chrono::steady_clock::now() + kLongestFarewell;
  while (agreement.rank == 0 && agreement.store.add(key, 0) < readers && std::chrono::steady_clock::now() < deadline) {
    agreement.store.get(key + "/never", std::chrono::milliseconds(20));
  }
}

void throw_missing(const Agreement& agreement, const std::string& topic, const std::string& ranks,
                   const std::string& key) {
  const auto missing = 1 + std::count(ranks.begin(), ranks.end(), ',');
  leave_together(agreement, key, agreement.world_size - static_cast<int>(missing));
  throw PeerFailed(agreement.who + " waited " + in_seconds(agreement.timeout) + " for all of " +
                   std::to_string(agreement.world_size) + " ranks to bring their " + topic + "; missing: rank " +
                   on_one_line(ranks) + "; look at their logs or raise --timeout");
}

}  // namespace cohort::host
