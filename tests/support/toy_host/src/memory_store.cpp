#include <cohort/toy_host/memory_store.hpp>

namespace cohort::toy {

void MemoryStore::set(const std::string& key, std::string_view value) {
  {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  changed_.notify_all();
}

std::optional<std::string> MemoryStore::get(const std::string& key, std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + timeout;
  if (!changed_.wait_until(lock, until, [&] { return values_.contains(key); })) return std::nullopt;
  return values_[key];
}

std::optional<std::string> MemoryStore::try_get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

int64_t MemoryStore::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[key];
    sum = (value.empty() ? 0 : std::stoll(value)) + amount;
    value = std::to_string(sum);
  }
  changed_.notify_all();
  return sum;
}

void MemoryStore::remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

uint64_t MemoryStore::count() {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

}  // namespace cohort::toy
