#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
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
