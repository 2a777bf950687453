// Checks that kernels that compute element by element give the bits of their formulas, rounded as kernels.h says.
#include <limits>
#include <memory>

#include "buffer.hpp"

namespace cohort::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

cohort_accelerator* accelerator() {
  return subject().core().accelerator;
}

TEST(Elements, FillWithAValueOfEveryType) {
  for (const int32_t dtype : test::kAllDtypes) {
    for (const uint64_t n : kSizes) {
      SCOPED_TRACE(std::to_string(n) + " elements of " + sdk::name_of(dtype));
      const double value = dtype == COHORT_BOOL ? 1.0 : 3.0;
      const Tensor out(dtype, n);
      ASSERT_EQ(subject().core().fill(accelerator(), out.data(), dtype, n, value, subject().stream()), COHORT_OK);
      expect_elements(out, dtype, [=](uint64_t) { return value; });
    }
  }
}

TEST(Elements, FillIntegersWithTheNearestValueAndNanWithZero) {
  const auto filled = [](int32_t dtype, double value) {
    const Tensor out(dtype, 1);
    EXPECT_EQ(subject().core().fill(accelerator(), out.data(), dtype, 1, value, subject().stream()), COHORT_OK);
    return out.values()[0];
  };
  EXPECT_EQ(filled(COHORT_INT8, 1000), 127);
  EXPECT_EQ(filled(COHORT_INT8, -1000), -128);
  EXPECT_EQ(filled(COHORT_INT16, 1e9), 32767);
  EXPECT_EQ(filled(COHORT_INT32, -1e30), -2147483648.0);
  EXPECT_EQ(filled(COHORT_INT64, 1e30), 9223372036854775807.0);
  EXPECT_EQ(filled(COHORT_UINT8, -1), 0);
  EXPECT_EQ(filled(COHORT_UINT8, 256), 255);
  EXPECT_EQ(filled(COHORT_UINT64, 1e30), 18446744073709551615.0);
  EXPECT_EQ(filled(COHORT_INT64, kNan), 0);
  EXPECT_EQ(filled(COHORT_BOOL, 0.5), 1);
}

TEST(Elements, FillFloatingTypesWithNanAndInfinity) {
  for (const int32_t dtype : kFloats) {
    for (const double value : {kNan, kInfinity, -kInfinity, -0.0, 0.1}) {
      const Tensor out(dtype, 65);
      ASSERT_EQ(subject().core().fill(accelerator(), out.data(), dtype, 65, value, subject().stream()), COHORT_OK);
      expect_elements(out, dtype, [=](uint64_t) { return value; });
    }
  }
}

TEST(Elements, CopyBytesFromAnywhereToAnywhere) {
  for (const uint64_t n : kSizes) {
    for (const uint64_t shift : {uint64_t{0}, uint64_t{1}, uint64_t{7}}) {
      std::vector<std::byte> bytes;
      for (uint64_t i = 0; i < n; ++i) bytes.push_back(static_cast<std::byte>(i * 31 + 7));
      Buffer in(n, shift);
      const Buffer out(n, 3);
      in.put(bytes);
      ASSERT_EQ(subject().core().copy(accelerator(), out.data(), in.data(), n, subject().stream()), COHORT_OK);
      EXPECT_EQ(out.get(), bytes);
      ASSERT_EQ(subject().core().copy(accelerator(), in.data(), in.data(), n, subject().stream()), COHORT_OK);
      EXPECT_EQ(in.get(), bytes);
    }
  }
}

TEST(Elements, AreNotTouchedWhereThereAreNone) {
  const cohort_kernels_core_1& k = subject().core();
  const cohort_stream* const stream = subject().stream();
  const void* const none[] = {nullptr, nullptr};
  for (const int32_t dtype : kFloats) {
    EXPECT_EQ(k.fill(accelerator(), nullptr, dtype, 0, 1.0, stream), COHORT_OK);
    EXPECT_EQ(k.copy(accelerator(), nullptr, nullptr, 0, stream), COHORT_OK);
    EXPECT_EQ(k.scale(accelerator(), nullptr, nullptr, dtype, 0, 2.0, stream), COHORT_OK);
    EXPECT_EQ(k.axpby(accelerator(), nullptr, nullptr, dtype, 0, 1.0, 1.0, stream), COHORT_OK);
    EXPECT_EQ(k.cast(accelerator(), nullptr, dtype, nullptr, COHORT_FLOAT32, 0, stream), COHORT_OK);
    EXPECT_EQ(k.sum_of_n(accelerator(), nullptr, none, 2, dtype, 0, 1.0, stream), COHORT_OK);
  }
}

TEST(Elements, ScaleInPlaceAndNot) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    const std::vector<double> values = mixed(dtype, n, 1);
    const auto wanted = [&](uint64_t i) { return in_math(dtype, in_math(dtype, 0.3) * values[i]); };
    const Tensor in(dtype, values), out(dtype, n);
    ASSERT_EQ(subject().core().scale(accelerator(), out.data(), in.data(), dtype, n, 0.3, subject().stream()),
              COHORT_OK);
    expect_elements(out, dtype, wanted);
    ASSERT_EQ(subject().core().scale(accelerator(), in.data(), in.data(), dtype, n, 0.3, subject().stream()),
              COHORT_OK);
    expect_elements(in, dtype, wanted);
  });
}

TEST(Elements, AddProductsThatAreRoundedFirst) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    const std::vector<double> x_values = mixed(dtype, n, 1), before = mixed(dtype, n, 3);
    const Tensor x(dtype, x_values), out(dtype, before);
    const auto wanted = [&](double x_value, double out_value) {
      const double product_x = in_math(dtype, in_math(dtype, 0.1) * x_value);
      return in_math(dtype, product_x + in_math(dtype, in_math(dtype, 0.9) * out_value));
    };
    const auto axpby = subject().core().axpby;
    ASSERT_EQ(axpby(accelerator(), out.data(), x.data(), dtype, n, 0.1, 0.9, subject().stream()), COHORT_OK);
    expect_elements(out, dtype, [&](uint64_t i) { return wanted(x_values[i], before[i]); });
    ASSERT_EQ(axpby(accelerator(), x.data(), x.data(), dtype, n, 0.1, 0.9, subject().stream()), COHORT_OK);
    expect_elements(x, dtype, [&](uint64_t i) { return wanted(x_values[i], x_values[i]); });
  });
}

TEST(Elements, CastBetweenAllFloatingTypesRoundedOnce) {
  for_types_and_sizes([](int32_t from, uint64_t n) {
    for (const int32_t to : kFloats) {
      const std::vector<double> values = mixed(from, n, 1);
      const Tensor in(from, values), out(to, n);
      ASSERT_EQ(subject().core().cast(accelerator(), out.data(), to, in.data(), from, n, subject().stream()),
                COHORT_OK);
      expect_elements(out, to, [&](uint64_t i) { return values[i]; });
    }
  });
}

TEST(Elements, CastRoundsTiesToEven) {
  const std::vector<double> ties{1 + 0x1p-11, 1 + 0x3p-11, 1 + 0x1p-8, 1 + 0x3p-8};
  const auto cast_to = [&](int32_t dtype) {
    const Tensor in(COHORT_FLOAT32, ties), out(dtype, 4);
    EXPECT_EQ(subject().core().cast(accelerator(), out.data(), dtype, in.data(), COHORT_FLOAT32, 4, subject().stream()),
              COHORT_OK);
    return out.values();
  };
  EXPECT_EQ(cast_to(COHORT_FLOAT16)[0], 1.0);
  EXPECT_EQ(cast_to(COHORT_FLOAT16)[1], 1 + 0x1p-9);
  EXPECT_EQ(cast_to(COHORT_BFLOAT16)[2], 1.0);
  EXPECT_EQ(cast_to(COHORT_BFLOAT16)[3], 1 + 0x1p-6);
}

TEST(Elements, SumFromLeftToRightIntoTheFirstOrElsewhere) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    for (const uint64_t num_inputs : {uint64_t{1}, uint64_t{2}, uint64_t{5}}) {
      std::vector<std::vector<double>> values;
      std::vector<std::unique_ptr<Tensor>> inputs;
      std::vector<const void*> pointers;
      for (uint64_t k = 0; k < num_inputs; ++k) {
        values.push_back(mixed(dtype, n, 10 + k));
        inputs.push_back(std::make_unique<Tensor>(dtype, values[k]));
        pointers.push_back(inputs[k]->data());
      }
      const auto wanted = [&](uint64_t i) {
        double sum = values[0][i];
        for (uint64_t k = 1; k < num_inputs; ++k) sum = in_math(dtype, sum + values[k][i]);
        return in_math(dtype, in_math(dtype, 0.2) * sum);
      };
      const auto sum_into = [&](const Tensor& out) {
        ASSERT_EQ(subject().core().sum_of_n(accelerator(), out.data(), pointers.data(), num_inputs, dtype, n, 0.2,
                                            subject().stream()),
                  COHORT_OK);
        expect_elements(out, dtype, wanted);
      };
      sum_into(Tensor(dtype, n));
      sum_into(*inputs[0]);
    }
  });
}

TEST(Elements, OfOtherTypesAreRefusedAndLeftAlone) {
  const cohort_kernels_core_1& k = subject().core();
  const cohort_stream* const stream = subject().stream();
  const std::vector<double> values{1, 2, 3, 4};
  const Tensor out(COHORT_INT64, values);
  const void* const inputs[] = {out.data()};
  EXPECT_EQ(k.scale(accelerator(), out.data(), out.data(), COHORT_INT64, 4, 2.0, stream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.axpby(accelerator(), out.data(), out.data(), COHORT_INT64, 4, 1, 1, stream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.cast(accelerator(), out.data(), COHORT_INT64, out.data(), COHORT_INT64, 4, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.cast(accelerator(), out.data(), COHORT_FLOAT64, out.data(), COHORT_INT64, 4, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.cast(accelerator(), out.data(), 0, out.data(), COHORT_FLOAT64, 4, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.cast(accelerator(), out.data(), COHORT_FLOAT64, out.data(), 99, 4, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.cast(accelerator(), out.data(), 99, out.data(), 99, 4, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.fill(accelerator(), out.data(), 99, 4, 2.0, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.scale(accelerator(), out.data(), out.data(), 99, 4, 2.0, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.sum_of_n(accelerator(), out.data(), inputs, 1, 99, 4, 1.0, stream), COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.sum_of_n(accelerator(), out.data(), inputs, 1, COHORT_INT64, 4, 1.0, stream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.sum_of_n(accelerator(), out.data(), inputs, 0, COHORT_FLOAT64, 4, 1.0, stream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(out.values(), values);
}

}  // namespace
}  // namespace cohort::conformance
