// Checks that the step of Adam gives the bits of its formula, rounded as kernels.h says.
#include <cmath>

#include "buffer.hpp"

namespace cohort::conformance {
namespace {

TEST(Adam, StepsAsItsFormulaSays) {
  constexpr double kKeep = 0.99, kRate = 0.01, kCorrection = 0.3, kEps = 1e-8;
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    const std::vector<double> momentum = mixed(dtype, n, 1), weight = mixed(dtype, n, 3);
    std::vector<double> square = finite(dtype, n, 2);
    for (uint64_t i = 0; i < n; ++i) square[i] = i % 7 == 3 ? 0 : std::abs(square[i]);
    const Tensor m(dtype, momentum), v(dtype, square), w(dtype, weight);
    const cohort_kernels_adam_1& adam = subject().adam();
    ASSERT_EQ(adam.step(adam.accelerator, w.data(), m.data(), v.data(), dtype, n, kKeep, kRate, kCorrection, kEps,
                        subject().stream()),
              COHORT_OK);
    expect_elements(w, dtype, [&](uint64_t i) {
      const auto rounded = [dtype](double value) { return in_math(dtype, value); };
      const double root = rounded(std::sqrt(square[i]));
      const double denominator = rounded(rounded(root / rounded(kCorrection)) + rounded(kEps));
      const double change = square[i] == 0 ? 0 : rounded(rounded(rounded(kRate) * momentum[i]) / denominator);
      return rounded(rounded(rounded(kKeep) * weight[i]) - change);
    });
  });
}

TEST(Adam, RefusesOtherTypes) {
  const Tensor x(COHORT_INT64, {1, 2});
  const cohort_kernels_adam_1& adam = subject().adam();
  EXPECT_EQ(adam.step(adam.accelerator, x.data(), x.data(), x.data(), COHORT_INT64, 2, 1, 1, 1, 1, subject().stream()),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(adam.step(adam.accelerator, x.data(), x.data(), x.data(), 99, 2, 1, 1, 1, 1, subject().stream()),
            COHORT_UNIMPLEMENTED);
}

}  // namespace
}  // namespace cohort::conformance
