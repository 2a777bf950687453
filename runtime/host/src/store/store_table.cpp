#include "store/store_table.hpp"

#include <charconv>
#include <utility>

namespace cohort::host {
namespace {

/// Returns the number that a value of `add` is, else 0.
int64_t number_in(const std::string& value) {
  int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

}  // namespace

void StoreTable::set(const std::string& key, std::string_view value) {
  {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    written_.push_back(key);
  }
  changed_.notify_all();
}

std::optional<std::string> StoreTable::get(const std::string& key, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  auto found = values_.end();
  changed_.wait_until(lock, deadline, [&] { return (found = values_.find(key)) != values_.end() || !waits_; });
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

int64_t StoreTable::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[key];
    sum = number_in(value) + amount;
    value = std::to_string(sum);
    written_.push_back(key);
  }
  changed_.notify_all();
  return sum;
}

void StoreTable::remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

std::vector<std::string> StoreTable::take_written() {
  const std::lock_guard lock(mutex_);
  return std::exchange(written_, {});
}

uint64_t StoreTable::count() {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

std::optional<StoreAnswer> StoreTable::serve(const StoreRequest& request) {
  using Operation = StoreRequest::Operation;
  StoreAnswer answer;
  switch (request.operation) {
    case Operation::kSet:
      set(request.key, request.value);
      break;
    case Operation::kGet: {
      auto value = get(request.key, {});
      if (!value) return std::nullopt;
      answer.value = std::move(*value);
      break;
    }
    case Operation::kAdd:
      answer.number = add(request.key, request.number);
      break;
    case Operation::kRemove:
      remove(request.key);
      break;
    case Operation::kCount:
      answer.number = static_cast<int64_t>(count());
      break;
  }
  return answer;
}

void StoreTable::stop_waiting() {
  {
    const std::lock_guard lock(mutex_);
    waits_ = false;
  }
  changed_.notify_all();
}

}  // namespace cohort::host
