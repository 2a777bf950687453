// What the files of the collective suite share: the wire under test, and how a body runs on its ranks.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <cohort/host/environment.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>
#include <cohort/host/store.hpp>

#include "call_failed.hpp"
#include "rank.hpp"
#include "ranks.hpp"
#include "reductions.hpp"

namespace cohort::conformance {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// The variable with the folder that only the ranks of this job have in common; mpirun sets it.
constexpr const char* kFolderOfJob = "PMIX_SERVER_TMPDIR";

/// What the command line says is to be tried.
struct Subject {
  host::PluginHost& plugins;
  Spec collective;
  bool deterministic;
  bool rank_ordered;                    // though the collective does not claim it
  bool composed;                        // everything from exchange
  bool mean_by_share;                   // means are sums times 1 / size
  int ranks_per_node;                   // 0: all on one
  int patience;                         // deadlines are that many times as long
  std::optional<host::Topology> place;  // where a launcher has started a process for each rank
};
const Subject& subject();

/// The collective's own table; without memory if everything is composed.
cohort_collective_vt native_table();
/// True where sums have to be left to right in rank order.
bool is_rank_ordered();
/// Returns whether sums of 16-bit types have to be taken in float32 and rounded once.
bool rounds_once();

/// Returns what the ranks' input_of reduces to on the subject.
test::Bytes wanted_of(const test::Reduction& c, int size);

/// What the ranks of a body use to speak to each other besides the wire that is under test.
using Board = host::Store;

/// Runs `body` on connected ranks, with deadlines of `timeout` times the patience. They are threads, and the first
/// rank's exception is rethrown; or the processes of a launcher, of which this one does its part. Returns when all have
/// ended.
void on_ranks(int size, const std::function<void(Comm&, Board&)>& body, std::chrono::nanoseconds timeout = 60s);
void on_ranks(int size, const std::function<void(Comm&)>& body, std::chrono::nanoseconds timeout = 60s);
/// What this rank has to wait for; throws where it does not come in a minute.
std::string await(Board& board, const std::string& key);
/// Returns when all ranks have called it; once for a test.
void meet(Board& board, int size);
/// Why this process does not run a test for so many ranks; "" where it does.
std::string why_not_on(int size);
/// The same with processes that are forked here. Only in suites named ...DeathTest, which run before any other.
std::vector<test::RankEnd> on_processes(int size, const std::function<void(Comm&)>& body,
                                        std::chrono::nanoseconds timeout = 60s);

/// In bodies of ranks, where GoogleTest's own assertions cannot end the rank.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Instantiated for numbers of ranks; under a launcher it runs for the number that there is.
class OnRanks : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  void SetUp() override {
    if (subject().place && subject().place->world_size != size()) GTEST_SKIP() << "the launcher started another number";
  }
};

}  // namespace cohort::conformance

#define COHORT_ON_RANKS(Suite, ...) \
  class Suite : public OnRanks {};  \
  INSTANTIATE_TEST_SUITE_P(Ranks, Suite, testing::Values(__VA_ARGS__), testing::PrintToStringParamName())

/// Skips where this process has no part in a test for so many ranks.
#define COHORT_NEEDS_RANKS(size) \
  if (const std::string why = why_not_on(size); !why.empty()) GTEST_SKIP() << why

/// Skips where the collective leaves out a slot for which the host has no substitute.
#define COHORT_NEEDS_SLOT(slot) \
  if (!native_table().slot) GTEST_SKIP() << "the collective has no " #slot
