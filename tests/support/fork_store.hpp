// A cohort_store for processes that are forked after it was made: a small table in memory they inherit.
//
// Holds up to 2048 keys of at most 127 bytes with values of at most 4,000. Waits poll, as nothing here needs to be
// fast.
#pragma once

#include <cohort/api/store.h>

namespace cohort::test {

class ForkStore {
 public:
  ForkStore();
  ~ForkStore();
  ForkStore(const ForkStore&) = delete;
  ForkStore& operator=(const ForkStore&) = delete;

  cohort_store* handle() { return &store_; }

 private:
  struct Table;
  cohort_store store_;
};

}  // namespace cohort::test
