#include "memory_store.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cohort::test {

struct MemoryStore::Table {
  static MemoryStore& self(cohort_store* store) { return *static_cast<MemoryStore*>(store->data); }

  static cohort_status copy_out(const std::string& from, void* value, uint64_t capacity, uint64_t* nbytes) {
    *nbytes = from.size();
    if (from.size() > capacity) return COHORT_RESOURCE_EXHAUSTED;
    if (!from.empty()) std::memcpy(value, from.data(), from.size());
    return COHORT_OK;
  }

  template <class IsThere>
  static bool wait_until(MemoryStore& s, std::unique_lock<std::mutex>& lock, int64_t timeout_ns, IsThere is_there) {
    return s.changed_.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns),
                                 is_there);
  }

  static cohort_status set(cohort_store* store, const char* key, const void* value, uint64_t nbytes) noexcept {
    MemoryStore& s = self(store);
    const std::lock_guard lock(s.mutex_);
    s.values_[key].assign(static_cast<const char*>(value), nbytes);
    s.changed_.notify_all();
    return COHORT_OK;
  }

  static cohort_status get(cohort_store* store, const char* key, int64_t timeout_ns, void* value, uint64_t capacity,
                           uint64_t* nbytes) noexcept {
    MemoryStore& s = self(store);
    std::unique_lock lock(s.mutex_);
    if (!wait_until(s, lock, timeout_ns, [&] { return s.values_.count(key) != 0; })) return COHORT_DEADLINE_EXCEEDED;
    return copy_out(s.values_[key], value, capacity, nbytes);
  }

  static cohort_status try_get(cohort_store* store, const char* key, void* value, uint64_t capacity,
                               uint64_t* nbytes) noexcept {
    MemoryStore& s = self(store);
    const std::lock_guard lock(s.mutex_);
    const auto found = s.values_.find(key);
    return found == s.values_.end() ? COHORT_NOT_FOUND : copy_out(found->second, value, capacity, nbytes);
  }

  static cohort_status add(cohort_store* store, const char* key, int64_t amount, int64_t* sum) noexcept {
    MemoryStore& s = self(store);
    const std::lock_guard lock(s.mutex_);
    std::string& value = s.values_[key];
    *sum = (value.empty() ? 0 : std::stoll(value)) + amount;
    value = std::to_string(*sum);
    s.changed_.notify_all();
    return COHORT_OK;
  }

  static cohort_status wait(cohort_store* store, const char* const* keys, uint64_t num_keys,
                            int64_t timeout_ns) noexcept {
    MemoryStore& s = self(store);
    std::unique_lock lock(s.mutex_);
    const auto are_all_there = [&] {
      return std::all_of(keys, keys + num_keys, [&](const char* key) { return s.values_.count(key) != 0; });
    };
    return wait_until(s, lock, timeout_ns, are_all_there) ? COHORT_OK : COHORT_DEADLINE_EXCEEDED;
  }

  static cohort_status remove(cohort_store* store, const char* key) noexcept {
    MemoryStore& s = self(store);
    const std::lock_guard lock(s.mutex_);
    s.values_.erase(key);
    return COHORT_OK;
  }

  static cohort_status count(cohort_store* store, uint64_t* num_keys) noexcept {
    MemoryStore& s = self(store);
    const std::lock_guard lock(s.mutex_);
    *num_keys = s.values_.size();
    return COHORT_OK;
  }

  static constexpr cohort_store_vt kTable{sizeof(cohort_store_vt), 0, set, get, try_get, add, wait, remove, count};
};

MemoryStore::MemoryStore() : store_{&Table::kTable, this} {}

}  // namespace cohort::test
