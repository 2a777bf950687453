#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/lane.hpp>

namespace cohort::host {
namespace {

constexpr std::chrono::seconds kLong{30};

TEST(Lane, RunsWorkInTheOrderOfSubmission) {
  Lane lane("test", kLong);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) lane.submit([&order, i] { order.push_back(i); });
  lane.drain();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Lane, RunsNestedWorkAtOnceOnItsOwnThread) {
  Lane lane("test", kLong);
  bool nested = false;
  lane.run([&] {
    EXPECT_TRUE(lane.is_current_thread());
    lane.run([&] { nested = true; });
    EXPECT_TRUE(nested);
  });
  EXPECT_FALSE(lane.is_current_thread());
}

TEST(Lane, ThrowsWhatAWorkThrewAndDropsWhatComesAfter) {
  Lane lane("test", kLong);
  bool ran = false;
  lane.submit([] { throw UserError("no"); });
  const Lane::Ticket after = lane.submit([&] { ran = true; });
  EXPECT_THROW(lane.wait(after), UserError);
  EXPECT_THROW(lane.drain(), UserError);
  EXPECT_FALSE(ran);
}

TEST(Lane, IsWaitedForNoLongerThanAsked) {
  Lane lane("test", kLong);
  std::atomic<bool> may_end{false};
  const Lane::Ticket ticket = lane.submit([&] {
    while (!may_end) std::this_thread::yield();
  });
  EXPECT_FALSE(lane.wait_for(ticket, std::chrono::nanoseconds(0)));
  may_end = true;
  EXPECT_TRUE(lane.wait_for(ticket, kLong));
  const Lane::Ticket failing = lane.submit([] { throw UserError("no"); });
  EXPECT_THROW(lane.wait_for(failing, kLong), UserError);
}

TEST(Lane, IsTheCallingThreadWhileItRunsWorkHere) {
  Lane lane("test", kLong);
  std::vector<int> order;  // unguarded: the lane itself keeps its works apart
  for (int i = 0; i < 200; ++i) {
    lane.submit([&order, i] { order.push_back(3 * i); });
    lane.run_here([&] {
      EXPECT_TRUE(lane.is_current_thread());
      lane.submit([&order, i] { order.push_back(3 * i + 2); });
      lane.run([&order, i] { order.push_back(3 * i + 1); });
      EXPECT_FALSE(lane.is_idle());
    });
    EXPECT_FALSE(lane.is_current_thread());
  }
  lane.drain();
  EXPECT_TRUE(lane.is_idle());
  ASSERT_EQ(order.size(), 600u);
  for (int i = 0; i < 600; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Lane, IsOneThreadAtATimeThoughSeveralRunWorkHere) {
  Lane lane("test", kLong);
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) lane.run_here([&] { ++count; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 400);
}

TEST(Lane, EndsWithWorkThatThrowsHereAsWithAnyOther) {
  Lane lane("test", kLong);
  EXPECT_THROW(lane.run_here([] { throw UserError("no"); }), UserError);
  EXPECT_TRUE(lane.is_idle());
  EXPECT_THROW(lane.drain(), UserError);
  bool ran = false;
  EXPECT_THROW(lane.run_here([&] { ran = true; }), UserError);
  EXPECT_FALSE(ran);
}

TEST(Lane, GivesUpAWaitThatNeverEnds) {
  Lane lane("test", std::chrono::milliseconds(20));
  std::atomic<bool> release{false};
  const Lane::Ticket stuck = lane.submit([&] { release.wait(false); });
  EXPECT_THROW(lane.wait(stuck), PeerFailed);
  release = true;
  release.notify_all();
}

}  // namespace
}  // namespace cohort::host
