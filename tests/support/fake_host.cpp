#include "fake_host.hpp"

#include <functional>
#include <thread>

namespace cohort::test {

namespace {
std::size_t this_thread() {
  return std::hash<std::thread::id>{}(std::this_thread::get_id());
}
}  // namespace

FakeHost::FakeHost() : host_{}, log_table_{} {
  host_.struct_size = sizeof host_;
  host_.abi = COHORT_ABI_VERSION;
  host_.ctx = this;
  host_.name = "cohort";
  host_.version = "0.0.0";
  host_.get_interface = [](const cohort_host* host, const char* id) noexcept -> const void* {
    FakeHost& fake = self(host);
    const std::lock_guard lock(fake.mutex_);
    ++fake.lookups_[id];
    const auto found = fake.tables_.find(id);
    return found == fake.tables_.end() ? nullptr : found->second;
  };
  host_.fail = [](const cohort_host* host, cohort_status code, const char* message) noexcept {
    FakeHost& fake = self(host);
    const std::lock_guard lock(fake.mutex_);
    fake.failures_[this_thread()] = {message, {}};
    return code;
  };
  host_.fail_peers = [](const cohort_host* host, cohort_status code, const int32_t* ranks, uint64_t num_ranks,
                        const char* message) noexcept {
    FakeHost& fake = self(host);
    const std::lock_guard lock(fake.mutex_);
    fake.failures_[this_thread()] = {message, {ranks, ranks + num_ranks}};
    return code;
  };
  log_table_.log = [](const cohort_host* host, int32_t, const char* message) noexcept {
    FakeHost& fake = self(host);
    const std::lock_guard lock(fake.mutex_);
    fake.log_lines_.emplace_back(message);
  };
  log_table_.enabled = [](const cohort_host* host, int32_t level) noexcept {
    return level >= self(host).log_level_ ? 1u : 0u;
  };
  offer(COHORT_LOG_ID, &log_table_);
}

void FakeHost::offer(const std::string& id, const void* table) {
  const std::lock_guard lock(mutex_);
  tables_[id] = table;
}

std::vector<std::string> FakeHost::log_lines() const {
  const std::lock_guard lock(mutex_);
  return log_lines_;
}

FakeHost::Failure FakeHost::take_failure_with_peers() {
  const std::lock_guard lock(mutex_);
  Failure failure = std::move(failures_[this_thread()]);
  failures_.erase(this_thread());
  return failure;
}

int FakeHost::lookups(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = lookups_.find(id);
  return found == lookups_.end() ? 0 : found->second;
}

}  // namespace cohort::test
