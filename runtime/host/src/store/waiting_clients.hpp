// Which clients of a store wait for which keys, and until when, so that a new key costs only those that wait for it.
// Threads: the server's.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cohort::host {

class WaitingClients {
 public:
  using Clock = std::chrono::steady_clock;

  /// A client, known by its descriptor, waits for one key at a time.
  void add(int client, const std::string& key, Clock::time_point until);
  void remove(int client);
  /// Returns the clients that wait for a key.
  std::vector<int> of(const std::string& key) const;
  /// Returns the clients whose time is over.
  std::vector<int> late(Clock::time_point now) const;
  /// Returns when the first client's time is over; nothing if none waits.
  std::optional<Clock::time_point> first_end() const;

 private:
  struct Wait {
    std::string key;
    Clock::time_point until;
  };
  std::unordered_map<int, Wait> waits_;
  std::unordered_map<std::string, std::set<int>> by_key_;
  std::set<std::pair<Clock::time_point, int>> by_end_;
};

}  // namespace cohort::host
