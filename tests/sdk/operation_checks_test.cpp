#include <functional>
#include <string>

#include <gmock/gmock.h>

#include <cohort/sdk/operation_checks.hpp>

namespace {

using namespace cohort;
using ::testing::HasSubstr;

constexpr uint64_t kMost = uint64_t{1} << 56;

struct Refusal {
  cohort_status status = COHORT_OK;
  std::string text{};
};

Refusal refusal_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const sdk::Error& error) {
    return {error.status(), error.what()};
  }
  return {};
}

cohort_op_args args_of(int32_t dtype, int32_t reduce, uint64_t count = 1) {
  cohort_op_args args{};
  args.dtype = dtype;
  args.reduce = reduce;
  args.count = count;
  return args;
}

Refusal reduction(int32_t dtype, int32_t reduce) {
  return refusal_of([&] { sdk::check_reduction(args_of(dtype, reduce), 2, "ring all_reduce"); });
}

TEST(OperationChecks, NameOperationReductionAndType) {
  EXPECT_EQ(reduction(COHORT_INT32, COHORT_REDUCE_MEAN).text,
            "ring all_reduce: the mean of int32 elements is not possible");
  EXPECT_EQ(reduction(COHORT_INT32, COHORT_REDUCE_MEAN).status, COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(reduction(COHORT_FLOAT32, 17).text, "ring all_reduce: unknown reduce operation 17");
  EXPECT_EQ(reduction(COHORT_FLOAT32, 17).status, COHORT_UNIMPLEMENTED);
  EXPECT_EQ(reduction(99, COHORT_REDUCE_SUM).text, "ring all_reduce: unknown data type 99");
  EXPECT_EQ(reduction(99, COHORT_REDUCE_SUM).status, COHORT_UNIMPLEMENTED);
  EXPECT_EQ(reduction(COHORT_INT64, COHORT_REDUCE_BIT_OR).status, COHORT_OK);
}

TEST(OperationChecks, CountThePiecesOfAllRanks) {
  const auto pieces = [](const cohort_op_args& args) {
    return refusal_of([&] { sdk::check_pieces(args, 2, "ring all_gather"); });
  };
  cohort_op_args args = args_of(COHORT_FLOAT32, 0, kMost / 2);
  EXPECT_EQ(pieces(args).status, COHORT_OK);
  args.count = kMost / 2 + 1;
  EXPECT_EQ(pieces(args).status, COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(pieces(args).text, HasSubstr("ring all_gather: an impossible number of elements"));
  const uint64_t fitting[]{kMost - 1, 1}, excessive[]{kMost, 1}, overflowing[]{~uint64_t{0}, 2};
  args.counts = fitting;
  EXPECT_EQ(pieces(args).status, COHORT_OK);
  args.counts = excessive;
  EXPECT_EQ(pieces(args).status, COHORT_INVALID_ARGUMENT);
  args.counts = overflowing;
  EXPECT_EQ(pieces(args).status, COHORT_INVALID_ARGUMENT);
}

}  // namespace
