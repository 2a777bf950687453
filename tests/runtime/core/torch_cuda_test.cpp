// LibTorch's library for CUDA in a program that has asked for CUDA before. It needs no GPU: the library is opened. Two
// programs run this: torch_cuda_linked_test links the library.
#include "device/torch_devices.hpp"

#include <errno.h>  // program_invocation_short_name

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Context.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

const host::TorchDeviceType kCuda{.name = "cuda", .device_type = COHORT_DEVICE_CUDA, .library = "libtorch_cuda.so"};

TEST(LibTorchForCuda, IsThereAfterAnEarlySeed) {
  at::manual_seed(1);
  if (std::string_view(program_invocation_short_name) == "torch_cuda_linked_test") {
    EXPECT_EQ(open_device_type(kCuda), c10::kCUDA);
    EXPECT_TRUE(at::globalContext().getAcceleratorHooksInterface(at::kCUDA).isBuilt());
    return;
  }
  EXPECT_THAT(
      [] { open_device_type(kCuda); },
      testing::ThrowsMessage<UserError>(testing::AllOf(
          testing::HasSubstr("this program used 'cuda' devices of LibTorch before cohort opened libtorch_cuda.so"),
          testing::HasSubstr("link the target cohort::libtorch_cuda"))));
}

}  // namespace
}  // namespace cohort
