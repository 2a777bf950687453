// The keys and values of a served store. Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store_message.hpp"

namespace cohort::host {

class StoreTable {
 public:
  void set(const std::string& key, std::string_view value);
  /// Blocks until the key exists, but no longer than until the deadline, and not after stop_waiting.
  std::optional<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline);
  int64_t add(const std::string& key, int64_t amount);
  void remove(const std::string& key);
  uint64_t count();
  /// Does what a client asks; returns nothing for a key that does not exist.
  std::optional<StoreAnswer> serve(const StoreRequest& request);
  void stop_waiting();
  /// Returns the keys that were written since the last call.
  std::vector<std::string> take_written();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> written_;
  bool waits_ = true;
};

}  // namespace cohort::host
