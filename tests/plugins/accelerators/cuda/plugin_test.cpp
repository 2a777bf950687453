// The accelerator `cuda` over a double of the CUDA runtime: devices, memory, and what it says when the runtime fails.
#include <gmock/gmock.h>

#include <cstring>
#include <set>
#include <vector>

#include "runtime.hpp"
#include "side.hpp"

namespace cohort::test {
namespace {

using cuda_on_cpu::machine;
using testing::AllOf;
using testing::HasSubstr;

class CudaPlugin : public testing::Test {
 protected:
  CudaPlugin() { machine() = {}; }  // the accelerator before gave its memory back behind its test's end
  ~CudaPlugin() override { machine() = {}; }

  Side cuda_ = Side::cuda();

  cohort_status count(int32_t& devices) { return cuda_.vt().device_count(cuda_.a(), &devices); }
};

TEST_F(CudaPlugin, SaysWhichDevicesThereAre) {
  int32_t devices = -1;
  EXPECT_EQ(count(devices), COHORT_OK);
  EXPECT_EQ(devices, 2);
  cohort_device_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(cuda_.vt().device_info(cuda_.a(), 1, &info), COHORT_OK);
  EXPECT_EQ(info.device_type, COHORT_DEVICE_CUDA);
  EXPECT_EQ(info.device_index, 1);
  EXPECT_EQ(info.memory_bytes, uint64_t{80} << 30);
  EXPECT_STREQ(info.name, "a GPU on the CPU");
  EXPECT_STREQ(info.pci_address, "0000:3B:00.0");
  EXPECT_STREQ(cuda_.vt().torch_device_type, "cuda");
  EXPECT_STREQ(cuda_.vt().torch_library, "libtorch_cuda.so");
}

TEST_F(CudaPlugin, WritesNoFieldThatTheHostDoesNotHave) {
  cohort_device_info info{};
  info.struct_size = offsetof(cohort_device_info, pci_address);
  EXPECT_EQ(cuda_.vt().device_info(cuda_.a(), 0, &info), COHORT_OK);
  EXPECT_STREQ(info.pci_address, "");
}

TEST_F(CudaPlugin, FindsNoDevicesWithoutADriver) {
  for (const cudaError_t error : {cudaErrorInsufficientDriver, cudaErrorStubLibrary, cudaErrorNoDevice}) {
    machine().count_error = error;
    machine().driver_version = 0;
    int32_t devices = -1;
    EXPECT_EQ(count(devices), COHORT_OK);
    EXPECT_EQ(devices, 0);
  }
}

TEST_F(CudaPlugin, RefusesADriverThatIsTooOldWithBothVersions) {
  machine().count_error = cudaErrorInsufficientDriver;
  machine().driver_version = 12040;
  int32_t devices = -1;
  EXPECT_EQ(count(devices), COHORT_FAILED_PRECONDITION);
  EXPECT_THAT(cuda_.take_failure(),
              AllOf(HasSubstr("serves CUDA 12.4"), HasSubstr("built with CUDA 13.0"), HasSubstr("update the driver")));
}

TEST_F(CudaPlugin, TellsWhyItCannotCount) {
  machine().count_error = cudaErrorInitializationError;
  int32_t devices = -1;
  EXPECT_EQ(count(devices), COHORT_INTERNAL);
  EXPECT_THAT(cuda_.take_failure(), HasSubstr("cuda: counting devices: what the runtime says"));
}

TEST_F(CudaPlugin, RefusesDevicesThatAreNotThere) {
  for (const int32_t index : {-1, 2}) {
    EXPECT_EQ(cuda_.vt().select(cuda_.a(), index), COHORT_INVALID_ARGUMENT);
    EXPECT_EQ(cuda_.take_failure(),
              "cuda: there is no device " + std::to_string(index) + "; this machine has 2, numbered from 0");
  }
  EXPECT_EQ(cuda_.vt().select(cuda_.a(), 1), COHORT_OK);
  EXPECT_EQ(machine().current_device, 1);
}

TEST_F(CudaPlugin, SaysThatADeviceIsUsedExclusively) {
  machine().fails["cudaSetDevice"] = cudaErrorDevicesUnavailable;
  EXPECT_EQ(cuda_.vt().select(cuda_.a(), 1), COHORT_FAILED_PRECONDITION);
  EXPECT_THAT(cuda_.take_failure(), AllOf(HasSubstr("(device 1)"), HasSubstr("another process uses it exclusively"),
                                          HasSubstr("choose another device")));
}

TEST_F(CudaPlugin, CopiesThroughPinnedMemory) {
  void* pinned = nullptr;
  ASSERT_EQ(cuda_.vt().alloc_pinned(cuda_.a(), 16, &pinned), COHORT_OK);
  char device[16] = "on the device";
  EXPECT_EQ(cuda_.vt().copy_to_host(cuda_.a(), pinned, device, 16, cuda_.stream()), COHORT_OK);
  EXPECT_STREQ(static_cast<char*>(pinned), "on the device");
  std::strcpy(static_cast<char*>(pinned), "on the host");
  EXPECT_EQ(cuda_.vt().copy_to_device(cuda_.a(), device, pinned, 16, cuda_.stream()), COHORT_OK);
  EXPECT_EQ(cuda_.vt().wait(cuda_.a(), cuda_.stream()), COHORT_OK);
  EXPECT_STREQ(device, "on the host");
  cuda_.vt().free_pinned(cuda_.a(), pinned);
}

TEST_F(CudaPlugin, SaysWhatWasAskedForAndWhatIsFree) {
  void* pinned = nullptr;
  machine().fails["cudaHostAlloc"] = cudaErrorMemoryAllocation;
  EXPECT_EQ(cuda_.vt().alloc_pinned(cuda_.a(), 3 << 20, &pinned), COHORT_RESOURCE_EXHAUSTED);
  EXPECT_THAT(cuda_.take_failure(),
              HasSubstr("no memory for 3.0 MiB of pinned host memory (device 0 has 12.0 MiB free of 80.0 GiB); use"));
}

TEST_F(CudaPlugin, GivesScratchMemoryBackWhateverHappens) {
  float x[4] = {1, 2, 3, 4};
  double result = 0;
  const auto dot = [&] { return cuda_.core().dot(cuda_.a(), x, x, COHORT_FLOAT32, 4, &result, cuda_.stream()); };
  EXPECT_EQ(dot(), COHORT_OK);
  EXPECT_EQ(result, 30.0);
  machine().fails["cudaMallocFromPoolAsync"] = cudaErrorMemoryAllocation;
  EXPECT_EQ(dot(), COHORT_RESOURCE_EXHAUSTED);
  EXPECT_THAT(cuda_.take_failure(), HasSubstr("no memory for 8 bytes of scratch memory for a kernel (device 0"));
  machine().fails = {{"cudaMallocFromPoolAsync", cudaErrorIllegalAddress}};
  EXPECT_EQ(dot(), COHORT_INTERNAL);
  EXPECT_THAT(cuda_.take_failure(), HasSubstr("enqueued earlier may have caused it: CUDA_LAUNCH_BLOCKING=1"));
  machine().fails.clear();
  std::vector<const void*> inputs(65, x);
  machine().fails["launch"] = cudaErrorInvalidValue;
  EXPECT_EQ(cuda_.core().sum_of_n(cuda_.a(), x, inputs.data(), 65, COHORT_FLOAT32, 4, 1.0, cuda_.stream()),
            COHORT_INTERNAL);
  EXPECT_EQ(machine().num_scratch, 0u);
}

TEST_F(CudaPlugin, WorksOnTheDeviceOfTheStream) {
  ASSERT_EQ(cuda_.vt().select(cuda_.a(), 0), COHORT_OK);
  char handle = 0;
  const cohort_stream other{&handle, COHORT_DEVICE_CUDA, 1}, none{&handle, COHORT_DEVICE_CUDA, 2};
  float x[4] = {1, 2, 3, 4};
  EXPECT_EQ(cuda_.core().scale(cuda_.a(), x, x, COHORT_FLOAT32, 4, 2.0, &other), COHORT_OK);
  EXPECT_EQ(x[3], 8);
  EXPECT_EQ(machine().current_device, 0);
  EXPECT_EQ(cuda_.core().scale(cuda_.a(), x, x, COHORT_FLOAT32, 4, 2.0, &none), COHORT_INVALID_ARGUMENT);
}

// A thread that has chosen no device is on device 0. A context there would take memory that the rank has no use for.
TEST_F(CudaPlugin, TakesNoMemoryOfOtherDevices) {
  ASSERT_EQ(cuda_.vt().select(cuda_.a(), 1), COHORT_OK);
  machine().current_device = 0;
  char handle = 0;
  const cohort_stream stream{&handle, COHORT_DEVICE_CUDA, 1};
  float x[4] = {1, 2, 3, 4};
  void* pinned = nullptr;
  EXPECT_EQ(cuda_.vt().alloc_pinned(cuda_.a(), 16, &pinned), COHORT_OK);
  machine().current_device = 0;
  EXPECT_EQ(cuda_.vt().copy_to_host(cuda_.a(), pinned, x, 16, &stream), COHORT_OK);
  machine().current_device = 0;
  EXPECT_EQ(cuda_.vt().wait(cuda_.a(), &stream), COHORT_OK);
  machine().current_device = 0;
  EXPECT_EQ(cuda_.core().scale(cuda_.a(), x, x, COHORT_FLOAT32, 4, 2.0, &stream), COHORT_OK);
  machine().current_device = 0;
  cuda_.vt().free_pinned(cuda_.a(), pinned);
  EXPECT_EQ(machine().contexts, std::set<int>{1});
}

TEST_F(CudaPlugin, ReturnsToADeviceInUse) {
  ASSERT_EQ(cuda_.vt().select(cuda_.a(), 1), COHORT_OK);
  ASSERT_EQ(cuda_.vt().select(cuda_.a(), 0), COHORT_OK);
  char handle = 0;
  const cohort_stream stream{&handle, COHORT_DEVICE_CUDA, 1};
  EXPECT_EQ(cuda_.vt().wait(cuda_.a(), &stream), COHORT_OK);
  EXPECT_EQ(machine().current_device, 0);
}

TEST_F(CudaPlugin, RefusesStreamsOfOtherDevices) {
  float x[4] = {1, 2, 3, 4};
  char handle = 0;
  for (const cohort_stream& stream :
       {cohort_stream{nullptr, COHORT_DEVICE_CUDA, 0}, cohort_stream{&handle, COHORT_DEVICE_CPU, 0}}) {
    EXPECT_EQ(cuda_.core().scale(cuda_.a(), x, x, COHORT_FLOAT32, 4, 2.0, &stream), COHORT_INVALID_ARGUMENT);
    EXPECT_THAT(cuda_.take_failure(), HasSubstr("no stream of a CUDA device"));
  }
}

TEST_F(CudaPlugin, HasOnePoolForEachDeviceAndGivesItBack) {
  {
    Side cuda = Side::cuda();
    float x[4] = {1, 2, 3, 4};
    double result = 0;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cuda.core().dot(cuda.a(), x, x, COHORT_FLOAT32, 4, &result, cuda.stream()), COHORT_OK);
    }
    EXPECT_EQ(machine().num_pools, 1u);
  }
  EXPECT_EQ(machine().num_pools, 0u);
}

TEST_F(CudaPlugin, KeepsNoPoolWithoutItsSettings) {
  float x[1] = {2};
  double result = 0;
  const auto dot = [&] { return cuda_.core().dot(cuda_.a(), x, x, COHORT_FLOAT32, 1, &result, cuda_.stream()); };
  machine().fails["cudaMemPoolSetAttribute"] = cudaErrorInvalidValue;
  EXPECT_EQ(dot(), COHORT_INTERNAL);
  EXPECT_EQ(machine().num_pools, 0u);
  machine().fails.clear();
  EXPECT_EQ(dot(), COHORT_OK);
  EXPECT_EQ(machine().num_pools, 1u);
}

TEST_F(CudaPlugin, GivesMemoryToStreamsIndependently) {
  float x[4] = {1, 2, 3, 4};
  double result = 0;
  EXPECT_EQ(cuda_.core().dot(cuda_.a(), x, x, COHORT_FLOAT32, 4, &result, cuda_.stream()), COHORT_OK);
  EXPECT_EQ(machine().pool_attributes.at(cudaMemPoolReuseAllowInternalDependencies), 0u);
  EXPECT_EQ(machine().pool_attributes.at(cudaMemPoolAttrReleaseThreshold), ~uint64_t{0});
}

/// A device without memory pools.
class CudaWithoutPools : public CudaPlugin {
 protected:
  CudaWithoutPools() { machine().has_pools = false; }

  /// Returns the sum of the squares of 1, 2, 3 and 4, or 0 if the kernel is refused.
  double square_sum(Side& side, void* handle) {
    const cohort_stream stream{handle, COHORT_DEVICE_CUDA, 0};
    float x[4] = {1, 2, 3, 4};
    double result = 0;
    side.core().square_sum(side.a(), x, COHORT_FLOAT32, 4, &result, &stream);
    return result;
  }

  char first_ = 0, second_ = 0;  // what streams point to
};

TEST_F(CudaWithoutPools, KeepsMemoryForEachStream) {
  {
    Side cuda = Side::cuda();
    for (void* const handle : {&first_, &second_, &first_, &second_}) EXPECT_EQ(square_sum(cuda, handle), 30.0);
    EXPECT_EQ(machine().num_pieces, 2u);
    EXPECT_EQ(machine().num_pools + machine().num_scratch, 0u);
  }
  EXPECT_EQ(machine().num_pieces, 0u);
}

TEST_F(CudaWithoutPools, ReportsMissingMemory) {
  EXPECT_EQ(square_sum(cuda_, &first_), 30.0);
  machine().fails["cudaMalloc"] = cudaErrorMemoryAllocation;
  EXPECT_EQ(square_sum(cuda_, &first_), 30.0) << "kept memory does";
  EXPECT_EQ(square_sum(cuda_, &second_), 0.0);
  EXPECT_THAT(cuda_.take_failure(), HasSubstr("no memory for 64.0 KiB of scratch memory for a kernel (device 0"));
}

TEST_F(CudaWithoutPools, RefusesCaptures) {
  cuda_on_cpu::Graph graph;
  machine().graph = &graph;
  EXPECT_EQ(square_sum(cuda_, &first_), 0.0);
  EXPECT_THAT(cuda_.take_failure(), AllOf(HasSubstr("has no memory pools"), HasSubstr("train without --graph")));
  EXPECT_EQ(machine().num_pieces, 0u);
}

}  // namespace
}  // namespace cohort::test
