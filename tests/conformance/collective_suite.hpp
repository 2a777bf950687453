// What the files of the collective suite share: the plugin under test, and ranks that are connected with it.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "elements.hpp"
#include "fork_store.hpp"
#include "memory_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"

namespace cohort::conformance {

/// The file given with --plugin.
const std::string& plugin_file();
/// The collective in it.
const cohort_component& collective();
const cohort_collective_vt& table();

/// Runs `body` on `size` connected ranks that are threads.
void on_ranks(int size, const std::function<void(test::RankComm&)>& body,
              std::chrono::nanoseconds timeout = std::chrono::seconds(60));

/// In bodies of ranks, where GoogleTest's own assertions cannot end the rank.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Instantiated for 1, 2, 3, 4 and 8 ranks.
class OnRanks : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
};

}  // namespace cohort::conformance

/// Skips where the plugin leaves a slot to the host.
#define COHORT_NEEDS_SLOT(slot) \
  if (!cohort::conformance::table().slot) GTEST_SKIP() << "the plugin leaves " #slot " to the host"
