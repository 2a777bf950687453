// Host memory and device memory on one communicator, and the services about devices, as a layer of a strategy uses
// them.
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "training.hpp"

namespace cohort::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr Training kDdp{.name = "Ddp", .strategy = "ddp"};

cohort_op_args sum_of(void* data, uint64_t count, const cohort_stream& stream) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = COHORT_FLOAT32;
  args.reduce = COHORT_REDUCE_SUM;
  args.input = args.output = data;
  args.count = count;
  args.stream = stream;
  return args;
}

class FakeDeviceComm : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, FakeDeviceComm, testing::Values("shm", "peer"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(FakeDeviceComm, TakesHostMemoryAndDeviceMemory) {
  toy::run_ranks(job_of(kDdp, GetParam(), fake_device_of), [](toy::ToyRank& rank) {
    EXPECT_EQ(rank.runtime.collective_name(), GetParam());
    std::vector<float> here(1000, 1.0f);
    rank.runtime.user_all_reduce(sum_of(here.data(), here.size(), {nullptr, COHORT_DEVICE_CPU, 0}));
    EXPECT_THAT(here, Each(2.0f));
    const host::RankDevices devices = rank.device->devices();
    const host::Device device = rank.device->device();
    const uint64_t nbytes = here.size() * sizeof(float);
    void* const there = devices.alloc(device, nbytes);
    devices.copy_from_host(device, there, here.data(), nbytes);
    rank.runtime.user_all_reduce(sum_of(there, here.size(), {nullptr, device.type, device.index}));
    devices.copy_to_host(device, here.data(), there, nbytes);
    EXPECT_THAT(here, Each(4.0f));
    devices.release(device, there);
    std::vector<double> values{1.0};
    rank.runtime.all_reduce(values, COHORT_REDUCE_SUM);
    EXPECT_EQ(values[0], 2.0);
    rank.runtime.barrier();
  });
}

TEST(FakeDeviceTwin, IsNamedWhereNoneIsInstalled) {
  toy::ToyJob job = job_of(kDdp, "peer", fake_device_of);
  const std::filesystem::path all = COHORT_TEST_PLUGIN_DIR, own = FAKE_PLUGIN_DIR;
  job.plugin_dirs = {own};
  job.plugins = {all / "cohort_ddp.so"};
  try {
    toy::run_ranks(job, [](toy::ToyRank&) { FAIL() << "connected"; });
    FAIL() << "made ranks";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("collective 'peer' moves device memory only, and none of shm,hier,gloo can"));
  }
}

TEST(FakeDeviceTwin, LeavesJobsOnTheCpuToOtherCollectives) {
  const auto failures = train_to_failure(kDdp, "peer", {});
  EXPECT_THAT(failures[0], HasSubstr("it moves memory of the fake device only; choose --collective=shm"));
}

TEST(FakeDeviceModel, OnTwoDevicesIsRefused) {
  toy::ToyJob job = job_of({.name = "", .strategy = "ddp"}, "shm", fake_device_of);
  const auto failures = toy::run_ranks_to_failure(job, [](toy::ToyRank& rank) {
    toy::FakeToyDevice other(1 - rank.device->device().index);
    toy::ToyModel model({{"w", 4}}, 1.0, {}, 1, &other);
    rank.runtime.configure(model);
  });
  EXPECT_THAT(failures[0], HasSubstr("this rank works on no device 1 of type 12"));
}

}  // namespace
}  // namespace cohort::test
