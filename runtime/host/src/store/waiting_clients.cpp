#include "store/waiting_clients.hpp"

namespace cohort::host {

void WaitingClients::add(int client, const std::string& key, Clock::time_point until) {
  remove(client);
  waits_.emplace(client, Wait{key, until});
  by_key_[key].insert(client);
  by_end_.emplace(until, client);
}

void WaitingClients::remove(int client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  const auto same_key = by_key_.find(found->second.key);
  same_key->second.erase(client);
  if (same_key->second.empty()) by_key_.erase(same_key);
  by_end_.erase({found->second.until, client});
  waits_.erase(found);
}

std::vector<int> WaitingClients::of(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? std::vector<int>() : std::vector<int>(found->second.begin(), found->second.end());
}

std::vector<int> WaitingClients::late(Clock::time_point now) const {
  std::vector<int> clients;
  for (const auto& [until, client] : by_end_) {
    if (until > now) break;
    clients.push_back(client);
  }
  return clients;
}

std::optional<WaitingClients::Clock::time_point> WaitingClients::first_end() const {
  return by_end_.empty() ? std::nullopt : std::optional(by_end_.begin()->first);
}

}  // namespace cohort::host
