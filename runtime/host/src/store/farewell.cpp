#include "store/farewell.hpp"

#include <algorithm>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/host/farewell.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

constexpr std::chrono::milliseconds kPause{5};

std::string in_seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

void stay_while(const std::function<bool()>& is_awaited) {
  const auto deadline = std::chrono::steady_clock::now() + kGraceTime;
  while (is_awaited() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kPause);
}

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
  if (agreement.rank == 0) stay_while([&] { return agreement.store.add(key, 0) < readers; });
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
