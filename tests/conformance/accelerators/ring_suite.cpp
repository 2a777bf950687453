// Checks that the change that a rank of a ring sends has the bits of its formula, rounded as kernels.h says.
#include "buffer.hpp"

namespace cohort::conformance {
namespace {

TEST(Ring, ChangesAsItsFormulaSays) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    const std::vector<double> left = mixed(dtype, n, 1), right = mixed(dtype, n, 2), own = mixed(dtype, n, 4),
                              before = mixed(dtype, n, 3);
    const Tensor x(dtype, before), l(dtype, left), r(dtype, right), w(dtype, own);
    const cohort_kernels_ring_1& ring = subject().ring();
    ASSERT_EQ(ring.change(ring.accelerator, x.data(), l.data(), r.data(), w.data(), dtype, n, subject().stream()),
              COHORT_OK);
    expect_elements(x, dtype, [&](uint64_t i) {
      const auto rounded = [dtype](double value) { return in_math(dtype, value); };
      const double sum = rounded(rounded(before[i] + rounded(left[i] / 3)) + rounded(right[i] / 3));
      return rounded(sum - rounded(rounded(5 * own[i]) / 3));
    });
  });
}

TEST(Ring, RefusesOtherTypes) {
  const Tensor x(COHORT_INT64, {1, 2});
  const cohort_kernels_ring_1& ring = subject().ring();
  EXPECT_EQ(ring.change(ring.accelerator, x.data(), x.data(), x.data(), x.data(), COHORT_INT64, 2, subject().stream()),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(ring.change(ring.accelerator, x.data(), x.data(), x.data(), x.data(), 99, 2, subject().stream()),
            COHORT_UNIMPLEMENTED);
}

}  // namespace
}  // namespace cohort::conformance
