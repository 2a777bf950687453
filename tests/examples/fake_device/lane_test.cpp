// Lanes of the host on the streams of a fake device.
#include <gmock/gmock.h>

#include <cohort/host/lane.hpp>

#include "fake_toy_device.hpp"

namespace cohort::test {
namespace {

using std::chrono::seconds;

class LaneOnDevice : public testing::Test {
 protected:
  LaneOnDevice() {
    fakedrv_set_eager(0);
    toy::ToyDevice& device = device_;
    device.port()->set_current(device.port()->make_stream(device.device()));
    memory_ = devices_.alloc(where_, sizeof(int));
  }
  ~LaneOnDevice() override { devices_.release(where_, memory_); }

  toy::FakeToyDevice device_{0};
  host::Device where_{COHORT_DEVICE_EXT, 0};
  host::RankDevices devices_ = static_cast<toy::ToyDevice&>(device_).devices();
  void* memory_ = nullptr;

  void put(int value) {
    device_.run("put", {{memory_, sizeof value, true}},
                [place = memory_, value] { *static_cast<int*>(fakedrv_contents(place)) = value; });
  }
  int now() const { return *static_cast<const int*>(fakedrv_contents(memory_)); }
  int value() const {
    int value = 0;
    devices_.copy_to_host(where_, &value, memory_, sizeof value);
    return value;
  }
};

TEST_F(LaneOnDevice, WaitOrdersStreamsAndDoesNotWaitForTheDevice) {
  host::Lane lane("tried", seconds(20), nullptr, devices_);
  put(1);
  const auto ticket = lane.submit([this] { put(2); });
  lane.wait(ticket);
  put(now() == 2 ? -1 : 3);  // what the lane has enqueued has not run
  EXPECT_EQ(value(), 3);
}

TEST_F(LaneOnDevice, WaitWithATimeIsDoneWhenTheDeviceIs) {
  host::Lane lane("tried", seconds(20), nullptr, devices_);
  constexpr int kPieces = 5;
  const auto ticket = lane.submit([this] {
    for (int i = 1; i <= kPieces; ++i) put(i);
  });
  lane.wait(ticket);
  int polls = 0;
  while (!lane.wait_for(ticket, std::chrono::nanoseconds(0))) ++polls;
  EXPECT_GE(polls, kPieces - 1) << "a poll runs one piece of work";
  EXPECT_EQ(now(), kPieces);
  put(8);  // ordered
  EXPECT_EQ(value(), 8);
}

TEST_F(LaneOnDevice, TasksInTheCallingThreadHaveTheLanesStream) {
  host::Lane lane("tried", seconds(20), nullptr, devices_);
  const void* const program = devices_.current(where_).native;
  put(1);
  lane.run_here([&] {
    EXPECT_NE(devices_.current(where_).native, program);
    put(2);
  });
  EXPECT_EQ(devices_.current(where_).native, program);
  put(3);
  EXPECT_EQ(value(), 3);
}

TEST_F(LaneOnDevice, OldTicketsAreOrderedToo) {
  host::Lane lane("tried", seconds(20), nullptr, devices_);
  const auto first = lane.submit([this] { put(1); });
  for (int i = 0; i < 200; ++i) lane.submit([] {});
  lane.wait(first);
  put(2);
  lane.drain();
  EXPECT_EQ(value(), 2);
}

TEST_F(LaneOnDevice, EndsBeforeItsMemoryIsFreed) {
  {
    host::Lane lane("tried", seconds(20), nullptr, devices_);
    lane.submit([this] { put(1); });
    while (!lane.is_idle()) {
    }
  }
  put(2);  // behind the lane that is gone
  EXPECT_EQ(value(), 2);
}

TEST_F(LaneOnDevice, AFailedTaskEndsItAsOnTheCpu) {
  host::Lane lane("tried", seconds(20), nullptr, devices_);
  const auto ticket = lane.submit([this] {
    char unpinned = 0;
    devices_.port()->copy_to_host(&unpinned, &unpinned, 1, devices_.current(where_));
    device_.run("bad", {{&unpinned, 1, true}}, [] {});
  });
  EXPECT_THROW(lane.wait(ticket), std::runtime_error);
}

}  // namespace
}  // namespace cohort::test
