// A store whose server takes it along when it leaves, for ranks that are threads. Threads: any.
#pragma once

#include <atomic>

#include "memory_store.hpp"

namespace cohort::test {

class ServedStore {
 public:
  ServedStore() = default;
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;

  /// Valid as long as this object.
  cohort_store* handle() { return &store_; }

  /// From now on nothing is read or written any more; who waits learns it when the wait ends.
  void leave() { is_gone_ = true; }

 private:
  template <auto kSlot, class... Arguments>
  static cohort_status while_served(cohort_store* store, Arguments... arguments) noexcept {
    auto& served = *static_cast<ServedStore*>(store->data);
    cohort_store* const table = served.table_.handle();
    const cohort_status status = (table->vt->*kSlot)(table, arguments...);
    return served.is_gone_ ? COHORT_UNAVAILABLE : status;
  }
  static const cohort_store_vt kFunctions;

  MemoryStore table_;
  std::atomic<bool> is_gone_{false};
  cohort_store store_{&kFunctions, this};
};

inline const cohort_store_vt ServedStore::kFunctions{
    .struct_size = sizeof(cohort_store_vt),
    .reserved0 = 0,
    .set = while_served<&cohort_store_vt::set>,
    .get = while_served<&cohort_store_vt::get>,
    .try_get = while_served<&cohort_store_vt::try_get>,
    .add = while_served<&cohort_store_vt::add>,
    .wait = while_served<&cohort_store_vt::wait>,
    .remove = while_served<&cohort_store_vt::remove>,
    .count = while_served<&cohort_store_vt::count>,
};

}  // namespace cohort::test
