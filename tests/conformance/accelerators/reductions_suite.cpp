// Checks the kernels that reduce to one number in memory of the device.
#include <cmath>
#include <limits>

#include "buffer.hpp"

namespace cohort::conformance {
namespace {

double double_in(const Tensor& result) {
  return result.values()[0];
}

double dot(const Tensor& x, const Tensor& y, int32_t dtype) {
  const Tensor result(COHORT_FLOAT64, 1);
  EXPECT_EQ(subject().core().dot(subject().core().accelerator, x.data(), y.data(), dtype, x.size(),
                                 reinterpret_cast<double*>(result.data()), subject().stream()),
            COHORT_OK);
  return double_in(result);
}

double square_sum(const Tensor& x, int32_t dtype) {
  const Tensor result(COHORT_FLOAT64, 1);
  EXPECT_EQ(subject().core().square_sum(subject().core().accelerator, x.data(), dtype, x.size(),
                                        reinterpret_cast<double*>(result.data()), subject().stream()),
            COHORT_OK);
  return double_in(result);
}

uint32_t found_inf(const Tensor& x, int32_t dtype) {
  const Tensor result(COHORT_INT32, 1);
  EXPECT_EQ(subject().core().found_inf(subject().core().accelerator, x.data(), dtype, x.size(),
                                       reinterpret_cast<uint32_t*>(result.data()), subject().stream()),
            COHORT_OK);
  return static_cast<uint32_t>(double_in(result));
}

TEST(Reductions, AddUpInDoublePrecision) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    const std::vector<double> x = finite(dtype, n, 1), y = finite(dtype, n, 2);
    long double products = 0, squares = 0;
    for (uint64_t i = 0; i < n; ++i) {
      products += static_cast<long double>(x[i]) * static_cast<long double>(y[i]);
      squares += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
    }
    const Tensor first(dtype, x), second(dtype, y);
    const double tolerance = 1e-12 * static_cast<double>(squares + 1);
    EXPECT_NEAR(dot(first, second, dtype), static_cast<double>(products), tolerance);
    EXPECT_NEAR(square_sum(first, dtype), static_cast<double>(squares), tolerance);
    EXPECT_EQ(dot(first, first, dtype), square_sum(first, dtype));
    EXPECT_EQ(dot(first, second, dtype), dot(first, second, dtype)) << "the second time";
  });
}

TEST(Reductions, HoldSquaresThatAreTooLargeForTheirType) {
  const Tensor x(COHORT_FLOAT32, {1e30, 2e30}), y(COHORT_FLOAT16, {60000.0, 60000.0});
  EXPECT_NEAR(square_sum(x, COHORT_FLOAT32) / 5e60, 1.0, 1e-6);
  EXPECT_NEAR(square_sum(y, COHORT_FLOAT16) / 7.2e9, 1.0, 1e-3);
}

TEST(Reductions, CarryNanAndInfinity) {
  for (const int32_t dtype : kFloats) {
    std::vector<double> values = finite(dtype, 257, 1);
    values[256] = std::numeric_limits<double>::infinity();
    EXPECT_EQ(square_sum(Tensor(dtype, values), dtype), values[256]);
    values[3] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(std::isnan(square_sum(Tensor(dtype, values), dtype)));
  }
}

TEST(Reductions, FindOneNanOrInfinityAnywhere) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    std::vector<double> values = finite(dtype, n, 1);
    EXPECT_EQ(found_inf(Tensor(dtype, values), dtype), 0u);
    if (n == 0) return;
    for (const uint64_t at : {uint64_t{0}, n / 2, n - 1}) {
      for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        const double before = values[at];
        values[at] = bad;
        EXPECT_EQ(found_inf(Tensor(dtype, values), dtype), 1u) << bad << " at " << at;
        values[at] = before;
      }
    }
  });
}

TEST(Reductions, OfOtherTypesAreRefused) {
  const cohort_kernels_core_1& k = subject().core();
  const Tensor x(COHORT_INT64, {1, 2}), result(COHORT_FLOAT64, 1);
  auto* const number = reinterpret_cast<double*>(result.data());
  auto* const found = reinterpret_cast<uint32_t*>(result.data());
  const cohort_stream* const stream = subject().stream();
  EXPECT_EQ(k.square_sum(subject().core().accelerator, x.data(), COHORT_INT64, 2, number, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.dot(subject().core().accelerator, x.data(), x.data(), COHORT_INT64, 2, number, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.found_inf(subject().core().accelerator, x.data(), COHORT_INT64, 2, found, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.square_sum(subject().core().accelerator, x.data(), 99, 2, number, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.dot(subject().core().accelerator, x.data(), x.data(), 99, 2, number, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.found_inf(subject().core().accelerator, x.data(), 99, 2, found, stream), COHORT_UNIMPLEMENTED);
}

}  // namespace
}  // namespace cohort::conformance
