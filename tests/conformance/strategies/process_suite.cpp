// Ranks as processes: the same result as with threads, and what is left when one is killed.
//
// The names end in DeathTest: GoogleTest runs these first, while this process has used neither threads nor the wire.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;
using testing::HasSubstr;

using Names = std::set<std::string>;

Names names_in_shared_memory() {
  Names names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path().string());
  return names;
}

// Of these files, those that no living process has mapped.
Names unused_of(Names names) {
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t path = line.find('/');
      if (path != std::string::npos) names.erase(line.substr(path));
    }
  }
  return names;
}

// Other programs use shared memory too: what they have just made and not mapped yet is no leftover.
Names left_behind_since(const Names& before) {
  Names left;
  for (const auto until = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < until;) {
    left.clear();
    std::ranges::set_difference(names_in_shared_memory(), before, std::inserter(left, left.end()));
    left = unused_of(std::move(left));
    if (left.empty()) break;
    std::this_thread::sleep_for(100ms);
  }
  return left;
}

std::string text_of(const Weights& weights) {
  std::string text;
  for (const Values& values : weights) text.append(reinterpret_cast<const char*>(values.data()), 8 * values.size());
  return text;
}

COHORT_ON_SHAPES(ProcessesDeathTest, all_shapes());

TEST_P(ProcessesDeathTest, EndWithTheSameBits) {
  const Net net = small_net();
  const auto ends = on_processes(shape(), net, [&](Trainee& trainee) {
    trainee.steps(backward_of(net, shape()), 0, 3);
    const std::string own = text_of(trainee.finish());
    for (const std::string& other : trainee.runtime().all_gather(own)) require(other == own, "weights differ");
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].is_ok) << "rank " << rank << ": " << ends[rank].error << " (signal " << ends[rank].signal
                                  << ")";
  }
}

COHORT_ON_SHAPES(AKilledRankDeathTest, shapes_of_several_ranks());

TEST_P(AKilledRankDeathTest, EndsTheOthersAndIsNamed) {
  const Net net = small_net();
  const auto ends = on_processes(
      shape(), net,
      [&](Trainee& trainee) {
        trainee.step(backward_of(net, shape()), 0);
        if (trainee.rank() == 1) {
          trainee.engine().begin(true);
          ::raise(SIGKILL);
        }
        trainee.steps(backward_of(net, shape()), 1, 4);
        trainee.finish();
      },
      5s);
  std::string said;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_FALSE(ends[rank].is_ok) << "rank " << rank << " was told that all is well";
    EXPECT_EQ(ends[rank].signal, 0) << "rank " << rank;
    said += ends[rank].error + "\n";
  }
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_THAT(said, HasSubstr("rank 1"));
}

COHORT_ON_SHAPES(KilledRanksDeathTest, largest_shape());

TEST_P(KilledRanksDeathTest, LeaveNothingBehind) {
  const Names before = names_in_shared_memory();
  const Net net = small_net();
  const auto ends = on_processes(shape(), net, [&](Trainee& trainee) {
    trainee.step(backward_of(net, shape()), 0);
    trainee.runtime().barrier();
    ::raise(SIGKILL);
  });
  for (const auto& end : ends) EXPECT_EQ(end.signal, SIGKILL) << end.error;
  EXPECT_THAT(left_behind_since(before), testing::IsEmpty());
}

}  // namespace
