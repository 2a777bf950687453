// Checks how an accelerator describes itself and its devices.
#include <cstring>

#include "buffer.hpp"

namespace cohort::conformance {
namespace {

TEST(Description, CountsItsDevicesTheSameEachTime) {
  int32_t first = -1, second = -1;
  ASSERT_EQ(subject().vt().device_count(subject().accelerator(), &first), COHORT_OK);
  ASSERT_EQ(subject().vt().device_count(subject().accelerator(), &second), COHORT_OK);
  EXPECT_GE(first, 0);
  EXPECT_EQ(first, second);
}

TEST(Description, DescribesEveryDevice) {
  const cohort_accelerator_vt& vt = subject().vt();
  if (!vt.device_info) GTEST_SKIP() << "the accelerator has no device_info";
  int32_t count = 0;
  ASSERT_EQ(vt.device_count(subject().accelerator(), &count), COHORT_OK);
  for (int32_t index = 0; index < count; ++index) {
    cohort_device_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(vt.device_info(subject().accelerator(), index, &info), COHORT_OK);
    EXPECT_EQ(info.device_type, vt.device_type);
    EXPECT_EQ(info.device_index, index);
    EXPECT_NE(std::memchr(info.name, 0, sizeof info.name), nullptr) << "the name has no end";
    EXPECT_NE(info.name[0], '\0');
    EXPECT_GT(info.memory_bytes, 0u);
  }
}

TEST(Description, NamesTheTypeThatTorchCallsIt) {
  const char* const name = subject().vt().torch_device_type;
  if (!name) GTEST_SKIP() << "the accelerator is for programs without LibTorch";
  EXPECT_GT(std::strlen(name), 0u);
}

TEST(Description, HasNothingUnderIdsOfOthers) {
  const cohort_accelerator_vt& vt = subject().vt();
  for (const char* id : {"", "org.example.nobody/1"}) {
    if (vt.kernels) {
      EXPECT_EQ(vt.kernels(subject().accelerator(), id), nullptr) << id;
    }
    if (vt.get_extension) {
      EXPECT_EQ(vt.get_extension(subject().accelerator(), id), nullptr) << id;
    }
  }
}

}  // namespace
}  // namespace cohort::conformance
