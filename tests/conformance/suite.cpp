#include "suite.hpp"

#include <algorithm>
#include <cstring>

#include "fork_store.hpp"
#include "memory_store.hpp"

namespace cohort::conformance {

cohort_collective_vt native_table() {
  const cohort_component& component = subject().plugins.open(host::Kind::kCollective, subject().collective.name);
  const auto& given = *static_cast<const cohort_collective_vt*>(component.vtable);
  cohort_collective_vt table{};
  std::memcpy(&table, &given, std::min<std::size_t>(given.struct_size, sizeof table));
  table.struct_size = sizeof table;
  return table;
}

bool is_rank_ordered() {
  return subject().deterministic || subject().composed || (native_table().flags & COHORT_COLLECTIVE_RANK_ORDERED);
}

void on_threads(int size, const std::function<void(Comm&)>& body, std::chrono::nanoseconds timeout) {
  test::MemoryStore store;
  test::run_as_threads(size, [&](int rank) {
    Rank connected(store.handle(), rank, size, timeout * subject().patience);
    body(connected.root());
  });
}

std::vector<test::RankEnd> on_processes(int size, const std::function<void(Comm&)>& body,
                                        std::chrono::nanoseconds timeout) {
  test::ForkStore store;
  return test::run_as_processes(size, [&](int rank) {
    Rank connected(store.handle(), rank, size, timeout * subject().patience);
    body(connected.root());
  });
}

}  // namespace cohort::conformance
