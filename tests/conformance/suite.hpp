// What the files of the collective suite share: the wire under test, and how a body runs on its ranks.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

#include "call_failed.hpp"
#include "rank.hpp"
#include "ranks.hpp"

namespace cohort::conformance {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// What the command line says is to be tried.
struct Subject {
  host::PluginHost& plugins;
  Spec collective;
  bool deterministic;
  bool composed;       // everything from exchange
  int ranks_per_node;  // 0: all on one
  int patience;        // deadlines are that many times as long
};
const Subject& subject();

/// The wire's own table.
cohort_collective_vt native_table();
/// True where sums have to be left to right in rank order.
bool is_rank_ordered();

/// Runs `body` on connected ranks that are threads, with deadlines of `timeout` times the patience; rethrows the first
/// rank's exception.
void on_threads(int size, const std::function<void(Comm&)>& body, std::chrono::nanoseconds timeout = 60s);
/// The same with ranks that are processes. Only in suites named ...DeathTest, which run before any other.
std::vector<test::RankEnd> on_processes(int size, const std::function<void(Comm&)>& body,
                                        std::chrono::nanoseconds timeout = 60s);

/// In bodies of ranks, where GoogleTest's own assertions cannot end the rank.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Instantiated for numbers of ranks.
class OnRanks : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
};

}  // namespace cohort::conformance

#define COHORT_ON_RANKS(Suite, ...) \
  class Suite : public OnRanks {};  \
  INSTANTIATE_TEST_SUITE_P(Ranks, Suite, testing::Values(__VA_ARGS__))

/// Skips where the collective leaves out a slot for which the host has no substitute.
#define COHORT_NEEDS_SLOT(slot) \
  if (!native_table().slot) GTEST_SKIP() << "the collective has no " #slot
