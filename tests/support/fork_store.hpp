// A cohort_store for processes of one machine: a small table in memory that they inherit, or map from a file.
//
// Holds up to 2048 keys of at most 127 bytes with values of at most 4,000. Waits poll, as nothing here needs to be
// fast.
#pragma once

#include <filesystem>

#include <cohort/api/store.h>

namespace cohort::test {

class ForkStore {
 public:
  ForkStore();
  /// For processes that are not forked: one makes the file and removes it again, the others wait until it is there.
  ForkStore(const std::filesystem::path& file, bool makes_it);
  ~ForkStore();
  ForkStore(const ForkStore&) = delete;
  ForkStore& operator=(const ForkStore&) = delete;

  cohort_store* handle() { return &store_; }

 private:
  struct Table;
  std::filesystem::path made_;  // empty: none
  cohort_store store_;
};

}  // namespace cohort::test
