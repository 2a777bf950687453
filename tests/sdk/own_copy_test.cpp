// Structs of another side of the ABI that has more fields than these headers, or fewer.
#include <cohort/sdk/own_copy.hpp>

#include <cstddef>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include <cohort/api/collective.h>

namespace {

using cohort::sdk::own_copy;

cohort_op_args whole_args() {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = COHORT_FLOAT64;
  args.root = 3;
  args.count = 7;
  args.stream = {&args, COHORT_DEVICE_EXT, 5};
  return args;
}

/// Returns a struct in memory that is as long as it says: reading behind it is noticed by sanitizers.
std::unique_ptr<std::byte[]> in_memory(cohort_op_args args, uint32_t nbytes) {
  auto memory = std::make_unique<std::byte[]>(nbytes);
  args.struct_size = nbytes;
  std::memset(memory.get(), 0x5a, nbytes);
  std::memcpy(memory.get(), &args, nbytes < sizeof args ? nbytes : sizeof args);
  return memory;
}

const cohort_op_args& args_in(const std::unique_ptr<std::byte[]>& memory) {
  return *reinterpret_cast<const cohort_op_args*>(memory.get());
}

TEST(SdkOwnCopy, IsEqualWithTheSameHeaders) {
  const cohort_op_args args = whole_args(), copy = own_copy(args);
  EXPECT_EQ(std::memcmp(&copy, &args, sizeof args), 0);
}

TEST(SdkOwnCopy, LeavesOutWhatItsHeadersDoNotKnow) {
  const auto memory = in_memory(whole_args(), sizeof(cohort_op_args) + 64);
  const cohort_op_args copy = own_copy(args_in(memory));
  EXPECT_EQ(copy.struct_size, sizeof copy) << "nobody reads behind the copy";
  EXPECT_EQ(copy.count, 7u);
  EXPECT_EQ(copy.stream.device_index, 5);
  EXPECT_EQ(args_in(memory).struct_size, sizeof copy + 64) << "the other side's stays as it is";
}

TEST(SdkOwnCopy, HasZerosForWhatTheOtherSideLacks) {
  const auto memory = in_memory(whole_args(), COHORT_END(cohort_op_args, root));
  const cohort_op_args copy = own_copy(args_in(memory));
  EXPECT_EQ(copy.struct_size, sizeof copy);
  EXPECT_EQ(copy.dtype, COHORT_FLOAT64);
  EXPECT_EQ(copy.root, 3);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&copy);
  for (std::size_t i = COHORT_END(cohort_op_args, root); i < sizeof copy; ++i) EXPECT_EQ(bytes[i], 0) << "byte " << i;
}

}  // namespace
