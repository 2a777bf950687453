// Rank 0 asks, all answer: a round over the job's store, while ranks have no memory in common yet.
//
// Every rank gives a value; rank 0 sees all of them and gives one reply to everybody. Borrows the store.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <cohort/api/store.h>

namespace cohort::shm {

class StoreRounds {
 public:
  /// `job_ranks`: what ranks are called in messages, by rank.
  StoreRounds(cohort_store* store, int rank, std::vector<int> job_ranks, std::chrono::nanoseconds timeout);

  /// Names of rounds differ. Throws DEADLINE_EXCEEDED with the ranks that gave no value in time, and
  /// FAILED_PRECONDITION on all ranks if one connects a group of another size.
  std::string round(const std::string& name, const std::string& value,
                    const std::function<std::string(const std::vector<std::string>&)>& reply);
  /// Deletes the keys of a round; on rank 0, when all ranks have its reply.
  void forget(const std::string& name);

 private:
  /// Returns the text of rank 0's reply. Throws FAILED_PRECONDITION if the reply is an error or of another size.
  std::string heard(const std::string& reply) const;
  std::string get(const std::string& round, const std::string& key);
  void set(const std::string& key, const std::string& value);
  [[noreturn]] void fail_without_store(cohort_status status) const;
  [[noreturn]] void fail_with_missing(const std::string& round, cohort_status status);
  std::chrono::nanoseconds time_left() const;
  int size() const { return static_cast<int>(job_ranks_.size()); }
  std::string name_of(int rank) const { return "rank " + std::to_string(job_ranks_[static_cast<std::size_t>(rank)]); }

  cohort_store* store_;
  int rank_;
  std::vector<int> job_ranks_;
  std::chrono::nanoseconds timeout_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace cohort::shm
