#include "suite.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "fork_store.hpp"
#include "memory_store.hpp"

namespace cohort::conformance {

cohort_collective_vt native_table() {
  const cohort_component& component = subject().plugins.open(host::Kind::kCollective, subject().collective.name);
  const auto& given = *static_cast<const cohort_collective_vt*>(component.vtable);
  cohort_collective_vt table{};
  std::memcpy(&table, &given, std::min<std::size_t>(given.struct_size, sizeof table));
  table.struct_size = sizeof table;
  if (subject().composed) table.alloc = nullptr;  // which would need its own split
  if (subject().composed) table.release = nullptr;
  return table;
}

bool is_rank_ordered() {
  return subject().deterministic || subject().composed || subject().rank_ordered ||
         (native_table().flags & COHORT_COLLECTIVE_RANK_ORDERED);
}

bool rounds_once() {
  const cohort_collective_vt table = native_table();
  return subject().deterministic || subject().composed || !table.all_reduce ||
         (table.flags & COHORT_COLLECTIVE_ROUNDS_ONCE);
}

namespace {

template <class T>
test::Bytes shares(test::Bytes sums, int size) {
  const T share = static_cast<T>(1.0 / size);
  for (std::size_t at = 0; at < sums.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, &sums[at], sizeof value);
    value = value * share;
    std::memcpy(&sums[at], &value, sizeof value);
  }
  return sums;
}

}  // namespace

test::Bytes wanted_of(const test::Reduction& c, int size) {
  const bool is_share = subject().mean_by_share && c.reduce == COHORT_REDUCE_MEAN;
  const test::Reduction sum{c.dtype, COHORT_REDUCE_SUM, c.count};
  if (is_share && c.dtype == COHORT_FLOAT32) return shares<float>(test::result_of(sum, size), size);
  if (is_share && c.dtype == COHORT_FLOAT64) return shares<double>(test::result_of(sum, size), size);
  return test::result_of(c, size);
}

namespace {

constexpr std::chrono::seconds kLongestWait{60};

void wait_for_all(Board& board, int size) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait * subject().patience;
  for (int64_t ended = board.add("ended", 1); ended < size; ended = board.add("ended", 0)) {
    require(std::chrono::steady_clock::now() < deadline, "another rank did not end this test");
    std::this_thread::sleep_for(1ms);
  }
}

// This process's part. Each test has a store of its own, in the folder of the job.
void on_this_rank(int size, const std::function<void(Comm&, Board&)>& body, std::chrono::nanoseconds timeout) {
  const host::Topology& place = *subject().place;
  static std::map<int, int> numbers;  // of tests for so many ranks: the same on all that take part
  const std::string name = "conformance-" + std::to_string(size) + "-" + std::to_string(numbers[size]++);
  test::ForkStore store(std::filesystem::path(std::getenv(kFolderOfJob)) / name, place.rank == 0);
  host::PrefixedStore board(store.handle(), "board/");
  std::exception_ptr error;
  try {
    Rank connected(store.handle(), place.rank, size, timeout * subject().patience);
    body(connected.root(), board);
  } catch (...) {
    error = std::current_exception();
  }
  wait_for_all(board, size);
  if (error) std::rethrow_exception(error);
}

void on_threads(int size, const std::function<void(Comm&, Board&)>& body, std::chrono::nanoseconds timeout) {
  test::MemoryStore store;
  test::run_as_threads(size, [&](int rank) {
    Rank connected(store.handle(), rank, size, timeout * subject().patience);
    host::PrefixedStore board(store.handle(), "board/");
    body(connected.root(), board);
  });
}

}  // namespace

void on_ranks(int size, const std::function<void(Comm&, Board&)>& body, std::chrono::nanoseconds timeout) {
  if (subject().place) {
    on_this_rank(size, body, timeout);
  } else {
    on_threads(size, body, timeout);
  }
}

void on_ranks(int size, const std::function<void(Comm&)>& body, std::chrono::nanoseconds timeout) {
  on_ranks(size, std::function<void(Comm&, Board&)>([&](Comm& comm, Board&) { body(comm); }), timeout);
}

std::string await(Board& board, const std::string& key) {
  const auto value = board.get(key, kLongestWait * subject().patience);
  require(value.has_value(), "nobody wrote '" + key + "'");
  return *value;
}

void meet(Board& board, int size) {
  if (board.add("have come", 1) == size) board.set("all have come", "");
  await(board, "all have come");
}

std::string why_not_on(int size) {
  const auto& place = subject().place;
  if (place && place->world_size < size) return "the launcher started fewer ranks";
  return place && place->rank >= size ? "the test is for the first ranks" : "";
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
