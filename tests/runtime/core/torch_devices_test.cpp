// LibTorch's streams, events and memory as the host sees them, on the fake device: its race check finds a missing
// order.
#include "device/torch_devices.hpp"

#include <array>
#include <string>

#include <cohort/host/error.hpp>

#include "backend.hpp"

namespace cohort {
namespace {

class DevicesOfLibTorch : public testing::Test {
 protected:
  static void SetUpTestSuite() { fake::open_backend(); }
  void SetUp() override { races_before_ = fakedrv_num_races(); }
  void TearDown() override {
    fake::wait();
    EXPECT_EQ(fakedrv_num_races(), races_before_);
  }

  static constexpr uint64_t kBytes = 4096;
  TorchDevices devices_{std::array{fake::device(0)}, COHORT_DEVICE_EXT};
  const host::Device device_ = devices_.devices().front();
  const cohort_stream program_ = devices_.current(device_), lane_ = devices_.make_stream(device_);

  void fill(void* memory, int byte, const cohort_stream& stream) {
    ASSERT_EQ(fakedrv_fill(static_cast<fakedrv_stream*>(stream.native), memory, byte, kBytes), 0) << fakedrv_error();
  }
  void order(const cohort_stream& later, const cohort_stream& earlier) {
    devices_.order(later, *devices_.record(earlier));
  }

 private:
  uint64_t races_before_ = 0;
};

TEST(DeviceTypes, WithoutANameOfLibTorchAreRefused) {
  try {
    open_device_type({"", COHORT_DEVICE_EXT, ""});
    FAIL() << "opened";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("its devices are for programs without LibTorch"), std::string::npos);
  }
}

TEST_F(DevicesOfLibTorch, GiveLanesAStreamOfTheirOwn) {
  EXPECT_NE(program_.native, lane_.native);
  devices_.set_current(lane_);
  EXPECT_EQ(devices_.current(device_).native, lane_.native);
  devices_.set_current(program_);
  EXPECT_EQ(devices_.current(device_).native, program_.native);
}

TEST_F(DevicesOfLibTorch, OrderAStreamBehindAnEvent) {
  void* const memory = devices_.alloc(kBytes, program_);
  fill(memory, 1, program_);
  order(lane_, program_);
  fill(memory, 2, lane_);
  std::array<unsigned char, kBytes> bytes{};
  devices_.copy_to_host(bytes.data(), memory, kBytes, lane_);
  EXPECT_THAT(bytes, testing::Each(2));
  order(program_, lane_);
  devices_.release(memory, program_);
}

// The allocator refuses what comes before LibTorch has initialized the type, as no tensor has made it do here.
TEST_F(DevicesOfLibTorch, GiveMemoryBeforeTheFirstTensor) {
  void* const memory = devices_.alloc(kBytes, program_);
  EXPECT_TRUE(memory);
  devices_.release(memory, program_);
}

TEST_F(DevicesOfLibTorch, UseEventsAgain) {
  { const std::shared_ptr<host::DeviceEvent> first = devices_.record(program_), second = devices_.record(lane_); }
  const uint64_t before = fakedrv_num_events();
  for (int i = 0; i < 20; ++i) {
    const auto begin = devices_.record(program_), end = devices_.record(lane_);
    devices_.order(lane_, *begin);
    devices_.order(program_, *end);
  }
  EXPECT_EQ(fakedrv_num_events(), before);
  const auto third = devices_.record(lane_), fourth = devices_.record(lane_), fifth = devices_.record(lane_);
  EXPECT_EQ(fakedrv_num_events(), before + 1) << "an event in use was given out again";
}

TEST_F(DevicesOfLibTorch, KeepMemoryForItsLastStream) {
  void* const memory = devices_.alloc(kBytes, program_);
  order(lane_, program_);
  fill(memory, 1, lane_);
  devices_.release(memory, lane_);
  void* const next = devices_.alloc(kBytes, program_);
  ASSERT_EQ(next, memory) << "the fake device gives freed memory to its stream at once";
  fill(next, 2, program_);
  devices_.release(next, program_);
}

}  // namespace
}  // namespace cohort
