#include <cohort/launch/restarts.hpp>

#include <gmock/gmock.h>
#include <signal.h>

namespace cohort::launch {
namespace {

TEST(Restarts, FollowFailuresOfRanksUpToTheirNumber) {
  host::LogSettings quiet;
  quiet.level = host::LogLevel::kOff;
  host::Log log(quiet);
  Restarts restarts(2, log);
  EXPECT_TRUE(restarts.take({128 + SIGKILL, 0}));
  EXPECT_FALSE(restarts.take({0, 0}));
  EXPECT_TRUE(restarts.take({4, 0}));
  EXPECT_FALSE(restarts.take({1, 0}));
}

TEST(Restarts, DoNotRepeatWhatWouldFailAgainOrWasToStop) {
  host::LogSettings quiet;
  quiet.level = host::LogLevel::kOff;
  host::Log log(quiet);
  Restarts restarts(5, log);
  EXPECT_FALSE(restarts.take({2, 0}));
  EXPECT_FALSE(restarts.take({3, 0}));
  EXPECT_FALSE(restarts.take({128 + SIGTERM, SIGTERM}));
}

}  // namespace
}  // namespace cohort::launch
