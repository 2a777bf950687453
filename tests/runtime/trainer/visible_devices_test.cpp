// CUDA's variables for ranks. The environment of the process is changed where a test says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <cohort/host/error.hpp>

#include "program/visible_devices.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

host::Selection on_gpus(std::vector<int> ids) {
  host::Selection selection;
  selection.torch.device_type = COHORT_DEVICE_CUDA;
  selection.device_ids = std::move(ids);
  return selection;
}

Devices ids(std::vector<int> given) {
  Devices devices;
  devices.kind = Devices::Kind::kIds;
  devices.ids = std::move(given);
  return devices;
}

Devices names(std::vector<std::string> given) {
  Devices devices;
  devices.kind = Devices::Kind::kNames;
  devices.names = std::move(given);
  return devices;
}

TEST(VisibleDevices, RanksSeeTheChosenOnesAndCountThem) {
  const auto shown = variables_of_devices(on_gpus({0, 2}), {});
  EXPECT_THAT(shown, ElementsAre(Pair("COHORT_DEVICES_SHOWN", "1"), Pair("CUDA_VISIBLE_DEVICES", "0,2")));
  const host::Variables of_rank(shown.begin(), shown.end());
  EXPECT_THAT(seen_devices(ids({0, 2}), of_rank).ids, ElementsAre(0, 1));
  EXPECT_THAT(variables_of_devices(on_gpus({0, 1}), of_rank), IsEmpty());  // a second time changes nothing
}

TEST(VisibleDevices, IdsAreThoseOfNvidiaSmi) {
  ::unsetenv("CUDA_DEVICE_ORDER");
  seen_devices(ids({0}), {});
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  ::setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  seen_devices(ids({0}), {});
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_ORDER"), "FASTEST_FIRST");
}

TEST(VisibleDevices, DeterministicRunsSetCublasUnlessTheUserHas) {
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  make_cublas_deterministic();
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  make_cublas_deterministic();
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

TEST(VisibleDevices, ASchedulersChoiceStays) {
  const host::Variables scheduler{{"CUDA_VISIBLE_DEVICES", "4,5,6"}};
  EXPECT_THAT(variables_of_devices(on_gpus({0, 2}), scheduler), IsEmpty());
  EXPECT_THAT(seen_devices(ids({0, 2}), scheduler).ids, ElementsAre(0, 2));
}

TEST(VisibleDevices, OtherAcceleratorsHaveNoVariable) {
  host::Selection selection = on_gpus({1});
  selection.torch.device_type = COHORT_DEVICE_EXT;
  EXPECT_THAT(variables_of_devices(selection, {}), IsEmpty());
}

TEST(VisibleDevices, NamesBecomeTheOnlyVisibleOnes) {
  seen_devices(names({"GPU-8932f937", "MIG-1a"}), {});
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "GPU-8932f937,MIG-1a");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(VisibleDevices, NamesThatASchedulerLeavesOutAreRefused) {
  const host::Variables scheduler{{"CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2"}};
  seen_devices(names({"GPU-2"}), scheduler);
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "GPU-2");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  try {
    seen_devices(names({"GPU-3"}), scheduler);
    FAIL() << "was not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("GPU-3, which CUDA_VISIBLE_DEVICES=GPU-1,GPU-2 leaves out"));
  }
}

TEST(VisibleDevices, ARanksLineIsTheOneThatUsersKnow) {
  host::Topology topology;
  topology.local_rank = 1;
  EXPECT_EQ(line_of_devices(on_gpus({0, 1, 2, 3}), topology, {}), "LOCAL_RANK: 1 - CUDA_VISIBLE_DEVICES: [0,1,2,3]");
  EXPECT_EQ(line_of_devices(on_gpus({0}), topology, {{"CUDA_VISIBLE_DEVICES", "2,3"}}),
            "LOCAL_RANK: 1 - CUDA_VISIBLE_DEVICES: [2,3]");
}

}  // namespace
}  // namespace cohort
