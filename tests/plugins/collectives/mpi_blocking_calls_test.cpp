#include "blocking_calls.hpp"

#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/sdk/error.hpp>

namespace cohort::mpi {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kSoonEnough = 60s;  // more than any machine needs

void look_nowhere() {}

/// Does not return before release().
class StuckCall {
 public:
  std::function<int()> function() const {
    return [end = end_] {
      end.wait();
      return 7;
    };
  }
  void release() { released_.set_value(); }

 private:
  std::promise<void> released_;
  std::shared_future<void> end_ = released_.get_future().share();
};

TEST(BlockingCalls, GiveWhatTheCallReturnsAndRunAllOnOneThread) {
  BlockingCalls calls;
  std::thread::id first, second;
  const auto note = [](std::thread::id& id) {
    return [&id] {
      id = std::this_thread::get_id();
      return 3;
    };
  };
  EXPECT_EQ(calls.run("one", note(first), Clock::now() + kSoonEnough, look_nowhere), 3);
  EXPECT_EQ(calls.run("two", note(second), Clock::now() + kSoonEnough, look_nowhere), 3);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
}

TEST(BlockingCalls, LookAroundWhileACallLasts) {
  BlockingCalls calls;
  StuckCall stuck;
  int looks = 0;
  const auto look = [&] {
    if (++looks == 3) stuck.release();
  };
  EXPECT_EQ(calls.run("call", stuck.function(), Clock::now() + kSoonEnough, look), 7);
  EXPECT_GE(looks, 3);
}

TEST(BlockingCalls, EndWithWhatTheLookFindsAndThenTakeNoOther) {
  StuckCall stuck;
  {
    BlockingCalls calls;
    const auto look = [] { throw std::runtime_error("rank 1 is gone"); };
    EXPECT_THROW(calls.run("MPI_Comm_split", stuck.function(), Clock::now() + kSoonEnough, look), std::runtime_error);
    try {
      calls.run(
          "MPI_Win_free", [] { return 0; }, Clock::now() + kSoonEnough, look_nowhere);
      FAIL() << "the thread is inside of a call";
    } catch (const sdk::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("does not return from MPI_Comm_split"));
    }
  }
  stuck.release();
}

TEST(BlockingCalls, EndAtTheDeadlineWithTheNameOfTheCall) {
  StuckCall stuck;
  {
    BlockingCalls calls;
    try {
      calls.run("MPI_Comm_split", stuck.function(), Clock::now() + 50ms, look_nowhere);
      FAIL() << "the call does not return";
    } catch (const sdk::Error& error) {
      EXPECT_EQ(error.status(), COHORT_DEADLINE_EXCEEDED);
      EXPECT_THAT(error.what(), HasSubstr("does not return from MPI_Comm_split"));
    }
  }
  stuck.release();
}

}  // namespace
}  // namespace cohort::mpi
