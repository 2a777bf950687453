// A group, or a part of one, that has connected is closed if its twin fails: collectives of device memory have one
// each.
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "fake_device.hpp"
#include "in_process.hpp"

namespace cohort::host {
namespace {

using testing::HasSubstr;

/// A set that opens `device_only`, with this collective for its twins.
class SetOfTwins {
 public:
  explicit SetOfTwins(const char* twin)
      : comms_(plugins_, host_, {.spec = Spec("device_only"), .cpu_collectives = twin}, &accelerator_) {
    vt_.struct_size = sizeof vt_;
    vt_.device_type = test::DeviceMemory::kDeviceType;
  }

  cohort_comm* open() {
    cohort_connect_args group{};
    group.struct_size = sizeof group;
    group.size = group.num_nodes = 1;
    group.device_type = test::DeviceMemory::kDeviceType;
    group.timeout_ns = std::chrono::nanoseconds(std::chrono::seconds(20)).count();
    group.store = store_.handle();
    group.name = "test";
    return comms_.open(nullptr, group);
  }
  CommunicatorSet& comms() { return comms_; }

 private:
  static PluginSearch search() {
    PluginSearch search;
    search.directories = {TEST_PLUGIN_FOLDER};
    return search;
  }

  Log log_{LogSettings{}};
  HostObject host_{log_};
  PluginHost plugins_{search(), log_};
  test::MemoryStore store_;
  cohort_accelerator_vt vt_{};
  cohort_accelerator accelerator_{sizeof accelerator_, 0, &vt_, nullptr, host_.get()};
  CommunicatorSet comms_;
};

int times_closed(const std::string& log) {
  constexpr std::string_view kLine = "device_only closes a communicator";
  int times = 0;
  for (size_t at = log.find(kLine); at != std::string::npos; at = log.find(kLine, at + 1)) ++times;
  return times;
}

template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(FailedTwin, ClosesAGroupWhoseTwinDoesNotConnect) {
  testing::internal::CaptureStderr();
  SetOfTwins set("no_connect");
  const std::string failure = failure_of([&] { set.open(); });
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(failure, HasSubstr("it cannot connect"));
  EXPECT_EQ(times_closed(log), 1) << log;
}

TEST(FailedTwin, ClosesAPartWhoseTwinDoesNotSplit) {
  testing::internal::CaptureStderr();
  std::string failure;
  {
    SetOfTwins set("no_split");
    cohort_comm* const whole = set.open();
    failure = failure_of([&] { set.comms().split(whole, 0, 0); });
    EXPECT_NO_THROW(set.comms().close(whole)) << "a part that failed was counted";
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(failure, HasSubstr("it cannot split"));
  EXPECT_EQ(times_closed(log), 2) << log;
}

}  // namespace
}  // namespace cohort::host
