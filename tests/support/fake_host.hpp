// A cohort_host for unit tests: records log lines and failures, and offers the tables that a test gives it.
//
// Threads: any; records are guarded by a mutex.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <cohort/api/host/log.h>

namespace cohort::test {

class FakeHost {
 public:
  FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  const cohort_host* raw() const { return &host_; }
  /// Offers a service table under its id.
  void offer(const std::string& id, const void* table);
  /// Levels below are not written.
  void set_log_level(int32_t level) { log_level_ = level; }

  std::vector<std::string> log_lines() const;
  /// The last message given to `fail` or `fail_peers` by the calling thread, taken out; "" where there is none.
  std::string take_failure() { return take_failure_with_peers().message; }
  /// As take_failure, with the ranks that `fail_peers` was given.
  struct Failure {
    std::string message;
    std::vector<int> peers;
  };
  Failure take_failure_with_peers();
  /// How often the table with this id was asked for.
  int lookups(const std::string& id) const;

 private:
  static FakeHost& self(const cohort_host* host) { return *static_cast<FakeHost*>(host->ctx); }

  cohort_host host_;
  cohort_log_1 log_table_;
  int32_t log_level_ = COHORT_LOG_DEBUG;
  mutable std::mutex mutex_;
  std::map<std::string, const void*> tables_;
  std::map<std::string, int> lookups_;
  std::vector<std::string> log_lines_;
  std::map<std::size_t, Failure> failures_;  // by thread
};

}  // namespace cohort::test
