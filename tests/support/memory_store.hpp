// A cohort_store in the memory of one process, for ranks that are threads. Threads: any; a waiting thread blocks no
// other.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include <cohort/api/store.h>

namespace cohort::test {

class MemoryStore {
 public:
  MemoryStore();
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  /// Valid as long as this object.
  cohort_store* handle() { return &store_; }

 private:
  struct Table;

  cohort_store store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace cohort::test
