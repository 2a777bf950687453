// Host memory and device memory on one communicator, and the services about devices, as a layer of a strategy uses
// them.
#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "training.hpp"

namespace cohort::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr Training kTraining{.name = "Ddp", .strategy = "ddp"};

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
  toy::run_ranks(job_of(kTraining, GetParam(), fake_device_of), [](toy::ToyRank& rank) {
    EXPECT_EQ(rank.runtime.collective(), GetParam());
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
  host::LogSettings quiet;
  quiet.level = host::LogLevel::kOff;
  host::Log log(quiet);
  host::PluginSearch search;
  search.directories = {FAKE_PLUGIN_DIR};
  search.files = {std::filesystem::path(COHORT_TEST_PLUGIN_DIR) / "cohort_ddp.so"};
  host::PluginHost plugins(search, log);
  toy::ToyJob job = job_of(kTraining, "peer", fake_device_of);
  job.plugin_host = &plugins;
  try {
    toy::run_ranks(job, [](toy::ToyRank&) { FAIL() << "connected"; });
    FAIL() << "made ranks";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("collective 'peer' moves device memory only, and none of shm,hier,gloo can"));
  }
}

TEST(FakeDeviceTwin, LeavesJobsOnTheCpuToOtherCollectives) {
  const auto failures = train_to_failure(kTraining, "peer", {});
  EXPECT_THAT(failures[0], HasSubstr("it moves memory of the fake device only; choose --collective=shm"));
}

struct Attempt {
  const char* does;
  const char* failure;  ///< "" if it works
};

class DeviceServices : public testing::TestWithParam<Attempt> {};
INSTANTIATE_TEST_SUITE_P(
    Of, DeviceServices,
    testing::Values(Attempt{"streams", ""}, Attempt{"outside", ""}, Attempt{"late", ""}, Attempt{"leave", ""},
                    Attempt{"host_memory", ""}, Attempt{"write", ""},
                    Attempt{"no_device_write", "memory/1.write: this rank works on no device 0 of type 3"},
                    Attempt{"no_stream_write", "memory/1.write was given no stream for memory of a device"},
                    Attempt{"foreign_memory", "'devices' gave memory/1.release memory that it does not have"},
                    Attempt{"no_device", "stream/1.current: this rank works on no device 7 of type 12"},
                    Attempt{"no_device_memory", "memory/1.alloc: this rank works on no device 0 of type 3"},
                    Attempt{"no_stream", "was given no stream for memory of a device; take it from stream/1.current"}),
    [](const auto& test) { return std::string(test.param.does); });

TEST_P(DeviceServices, DoWhatTheirHeadersSay) {
  for (const char* const wire : {"shm", "peer"}) {
    toy::ToyJob job = job_of(kTraining, wire, fake_device_of);
    job.layers = {Spec("devices").set("does", GetParam().does)};
    const uint64_t races_before = fakedrv_num_races();
    const auto failures = toy::run_ranks_to_failure(job, [](toy::ToyRank& rank) { train_rank(kTraining, rank); });
    const auto matches = *GetParam().failure ? testing::Matcher<std::string>(HasSubstr(GetParam().failure))
                                             : testing::Matcher<std::string>(testing::Eq(""));
    EXPECT_THAT(failures, Each(matches)) << wire;
    EXPECT_EQ(fakedrv_num_races(), races_before);
    for (int device = 0; device < FAKEDRV_DEVICES; ++device) EXPECT_EQ(fakedrv_allocated(device), 0u);
  }
}

TEST(FakeDeviceMemory, IsFreeOfWorkWhenItIsReleased) {
  const uint64_t races_before = fakedrv_num_races();
  toy::ToyJob job = job_of(kTraining, "peer", fake_device_of);
  job.layers = {Spec("devices").set("does", "release")};
  const auto failures = toy::run_ranks_to_failure(job, [](toy::ToyRank& rank) { train_rank(kTraining, rank); });
  EXPECT_THAT(failures, Each(""));
  EXPECT_EQ(fakedrv_num_races(), races_before);
}

TEST(FakeDeviceModel, IsRefusedOnADeviceThatTheRankHasNot) {
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
