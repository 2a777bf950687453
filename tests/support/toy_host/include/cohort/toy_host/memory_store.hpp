// A store in memory, shared by ranks that are threads of one process. Any thread.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include <cohort/host/store.hpp>

namespace cohort::toy {

class MemoryStore final : public host::Store {
 public:
  void set(const std::string& key, std::string_view value) override;
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void remove(const std::string& key) override;
  uint64_t count() override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace cohort::toy
