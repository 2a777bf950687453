#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include <gmock/gmock.h>

#include "cpu.hpp"

namespace {

using namespace cohort::test;
using testing::HasSubstr;

bool is_same(Elements& a, Elements& b) {
  return std::memcmp(a.data(), b.data(), a.nbytes()) == 0;
}

/// True where the element has the bits of `value`, or both are NaN.
bool is_element(Elements& got, int32_t dtype, uint64_t i, double value) {
  std::byte wanted[8];
  put_element(wanted, dtype, 0, value);
  return std::memcmp(got.data() + i * size_of(dtype), wanted, size_of(dtype)) == 0 ||
         (std::isnan(got[i]) && std::isnan(get_element(wanted, dtype, 0)));
}

/// Arithmetic is float for all but float64: a double result is rounded to it first.
double in_math(int32_t dtype, double value) {
  return dtype == COHORT_FLOAT64 ? value : static_cast<double>(static_cast<float>(value));
}

using Operation = std::function<void(Cpu&, Elements& out)>;
using Reference = std::function<double(uint64_t i)>;

/// Runs on every instruction set: the first one against the reference, the others against the first one's bits.
void check_elementwise(int32_t dtype, uint64_t n, const Operation& operation, const Reference& reference) {
  std::unique_ptr<Elements> first;
  for (auto& [isa, cpu] : all_isas()) {
    SCOPED_TRACE(isa);
    auto out = std::make_unique<Elements>(mixed(dtype, n, 3));
    operation(*cpu, *out);
    if (first) {
      EXPECT_TRUE(is_same(*out, *first)) << "other bits than the first instruction set";
      continue;
    }
    for (uint64_t i = 0; i < n; ++i) {
      const double wanted = reference(i);
      if (!is_element(*out, dtype, i, wanted)) FAIL() << "element " << i << " is " << (*out)[i] << ", not " << wanted;
    }
    first = std::move(out);
  }
}

TEST(CpuAccelerator, SaysWhatTheMachineIs) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  const auto* vt = Cpu::vtable();
  EXPECT_EQ(vt->device_type, COHORT_DEVICE_CPU);
  EXPECT_STREQ(vt->torch_device_type, "cpu");
  int32_t count = 0;
  EXPECT_EQ(vt->device_count(cpu.object(), &count), COHORT_OK);
  EXPECT_GE(count, 1);
  cohort_device_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(vt->device_info(cpu.object(), 0, &info), COHORT_OK);
  EXPECT_GT(std::strlen(info.name), 0u);
  EXPECT_GT(info.memory_bytes, uint64_t{1} << 20);
  EXPECT_EQ(vt->select(cpu.object(), 0), COHORT_OK);
  EXPECT_EQ(vt->select(cpu.object(), -1), COHORT_INVALID_ARGUMENT);
}

TEST(CpuAccelerator, RefusesInstructionsItDoesNotHave) {
  Cpu cpu;
  EXPECT_EQ(cpu.create("mmx"), COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(cpu.host.take_failure(), HasSubstr("mmx"));
}

TEST(CpuAccelerator, RefusesDataTypesItCannotCompute) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  const auto& k = cpu.kernels();
  int64_t values[4] = {};
  double result = 0;
  uint32_t found = 0;
  EXPECT_EQ(k.scale(nullptr, values, values, COHORT_INT64, 4, 2.0, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.axpby(nullptr, values, values, COHORT_BOOL, 4, 1, 1, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.cast(nullptr, values, COHORT_FLOAT32, values, COHORT_INT32, 4, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.cast(nullptr, values, COHORT_INT32, values, COHORT_INT32, 4, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.cast(nullptr, values, 0, values, COHORT_FLOAT32, 4, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.fill(nullptr, values, 99, 4, 2.0, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.sum_of_n(nullptr, values, nullptr, 0, COHORT_FLOAT32, 4, 1.0, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.square_sum(nullptr, values, COHORT_INT8, 4, &result, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.found_inf(nullptr, values, COHORT_INT8, 4, &found, &kStream), COHORT_INVALID_ARGUMENT);
}

TEST(CpuKernels, FillEveryType) {
  for (const int32_t dtype : kAllDtypes) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{65}}) {
      check_elementwise(
          dtype, n,
          [&](Cpu& cpu, Elements& out) {
            EXPECT_EQ(cpu.kernels().fill(nullptr, out.data(), dtype, n, 3.0, &kStream), COHORT_OK);
          },
          [](uint64_t) { return 3.0; });
    }
  }
}

TEST(CpuKernels, FillIntegersWithTheNearestValue) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  int8_t small = 0;
  uint8_t byte = 0;
  int64_t large = 0;
  uint64_t unsigned_large = 0;
  const auto fill = [&](auto& value, int32_t dtype, double with) {
    cpu.kernels().fill(nullptr, &value, dtype, 1, with, &kStream);
  };
  fill(small, COHORT_INT8, 1000);
  EXPECT_EQ(small, 127);
  fill(small, COHORT_INT8, -1000);
  EXPECT_EQ(small, -128);
  fill(byte, COHORT_UINT8, -1);
  EXPECT_EQ(byte, 0);
  fill(byte, COHORT_UINT8, 256);
  EXPECT_EQ(byte, 255);
  fill(large, COHORT_INT64, 1e30);
  EXPECT_EQ(large, std::numeric_limits<int64_t>::max());
  fill(unsigned_large, COHORT_UINT64, 1e30);
  EXPECT_EQ(unsigned_large, std::numeric_limits<uint64_t>::max());
  fill(large, COHORT_INT64, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(large, 0);
}

TEST(CpuKernels, ScaleInPlaceAndNot) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      Elements in = mixed(dtype, n, 1);
      const auto expected = [&](uint64_t i) { return in_math(dtype, in_math(dtype, 0.3) * in[i]); };
      check_elementwise(
          dtype, n,
          [&](Cpu& cpu, Elements& out) {
            cpu.kernels().scale(nullptr, out.data(), in.data(), dtype, n, 0.3, &kStream);
          },
          expected);
      check_elementwise(
          dtype, n,
          [&](Cpu& cpu, Elements& out) {
            if (n) std::memcpy(out.data(), in.data(), in.nbytes());
            cpu.kernels().scale(nullptr, out.data(), out.data(), dtype, n, 0.3, &kStream);
          },
          expected);
    }
  }
}

TEST(CpuKernels, AxpbyRoundsBothProductsAndTheSum) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      Elements x = mixed(dtype, n, 1);
      Elements before = mixed(dtype, n, 3);
      check_elementwise(
          dtype, n,
          [&](Cpu& cpu, Elements& out) {
            cpu.kernels().axpby(nullptr, out.data(), x.data(), dtype, n, 0.1, 0.9, &kStream);
          },
          [&](uint64_t i) {
            const double product_x = in_math(dtype, in_math(dtype, 0.1) * x[i]);
            const double product_out = in_math(dtype, in_math(dtype, 0.9) * before[i]);
            return in_math(dtype, product_x + product_out);
          });
    }
  }
}

TEST(CpuKernels, CastBetweenAllFloatingTypesRoundsOnce) {
  for (const int32_t from : kFloats) {
    for (const int32_t to : kFloats) {
      for (const uint64_t n : kSizes) {
        Elements in = mixed(from, n, 1);
        check_elementwise(
            to, n,
            [&](Cpu& cpu, Elements& out) { cpu.kernels().cast(nullptr, out.data(), to, in.data(), from, n, &kStream); },
            [&](uint64_t i) { return in[i]; });
      }
    }
  }
}

TEST(CpuKernels, CastRoundsTiesToEven) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  const float values[4] = {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f};
  uint16_t half[4];
  uint16_t bfloat[4];
  cpu.kernels().cast(nullptr, half, COHORT_FLOAT16, values, COHORT_FLOAT32, 4, &kStream);
  cpu.kernels().cast(nullptr, bfloat, COHORT_BFLOAT16, values, COHORT_FLOAT32, 4, &kStream);
  EXPECT_EQ(half[0], 0x3c00);
  EXPECT_EQ(half[1], 0x3c02);
  EXPECT_EQ(bfloat[2], 0x3f80);
  EXPECT_EQ(bfloat[3], 0x3f82);
}

TEST(CpuKernels, SumOfNAddsFromLeftToRight) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      for (const uint64_t num_inputs : {uint64_t{1}, uint64_t{2}, uint64_t{5}}) {
        std::vector<Elements> inputs;
        std::vector<const void*> pointers;
        for (uint64_t k = 0; k < num_inputs; ++k) inputs.push_back(mixed(dtype, n, 10 + k));
        for (Elements& input : inputs) pointers.push_back(input.data());
        check_elementwise(
            dtype, n,
            [&](Cpu& cpu, Elements& out) {
              cpu.kernels().sum_of_n(nullptr, out.data(), pointers.data(), num_inputs, dtype, n, 0.2, &kStream);
            },
            [&](uint64_t i) {
              double sum = inputs[0][i];
              for (uint64_t k = 1; k < num_inputs; ++k) sum = in_math(dtype, sum + inputs[k][i]);
              return in_math(dtype, in_math(dtype, 0.2) * sum);
            });
      }
    }
  }
}

TEST(CpuKernels, DotAndSquareSumAreAccurateAndTheSameOnEveryInstructionSet) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      Elements a = finite(dtype, n, 1);
      Elements b = finite(dtype, n, 2);
      long double exact_dot = 0;
      long double exact_squares = 0;
      for (uint64_t i = 0; i < n; ++i) {
        exact_dot += static_cast<long double>(a[i]) * static_cast<long double>(b[i]);
        exact_squares += static_cast<long double>(a[i]) * static_cast<long double>(a[i]);
      }
      std::vector<std::pair<double, double>> results;
      for (auto& [isa, cpu] : all_isas()) {
        double dot = -1;
        double squares = -1;
        ASSERT_EQ(cpu->kernels().dot(nullptr, a.data(), b.data(), dtype, n, &dot, &kStream), COHORT_OK);
        ASSERT_EQ(cpu->kernels().square_sum(nullptr, a.data(), dtype, n, &squares, &kStream), COHORT_OK);
        results.emplace_back(dot, squares);
        EXPECT_EQ(results.back(), results.front()) << isa;
      }
      const double tolerance = 1e-12 * static_cast<double>(exact_squares + 1);
      EXPECT_NEAR(results[0].first, static_cast<double>(exact_dot), tolerance);
      EXPECT_NEAR(results[0].second, static_cast<double>(exact_squares), tolerance);
    }
  }
}

TEST(CpuKernels, FindOneNanOrInfinityAnywhere) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{65}, uint64_t{4099}}) {
      Elements values = finite(dtype, n, 1);
      for (auto& [isa, cpu] : all_isas()) {
        const auto found = [&, k = &cpu->kernels()] {
          uint32_t result = 7;
          EXPECT_EQ(k->found_inf(nullptr, values.data(), dtype, n, &result, &kStream), COHORT_OK);
          return result;
        };
        EXPECT_EQ(found(), 0u) << isa;
        if (n == 0) continue;
        const double before = values[n - 1];
        put_element(values.data(), dtype, n - 1, std::numeric_limits<double>::quiet_NaN());
        EXPECT_EQ(found(), 1u) << isa;
        put_element(values.data(), dtype, n - 1, before);
        const double first = values[0];
        put_element(values.data(), dtype, 0, -std::numeric_limits<double>::infinity());
        EXPECT_EQ(found(), 1u) << isa;
        put_element(values.data(), dtype, 0, first);
      }
    }
  }
}

TEST(CpuKernels, AdamStepsAsItsFormulaSays) {
  constexpr double kKeep = 0.99, kRate = 0.01, kCorrection = 0.3, kEps = 1e-8;
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      Elements momentum = finite(dtype, n, 1), square = finite(dtype, n, 2), weight = mixed(dtype, n, 3);
      for (uint64_t i = 0; i < n; ++i) put_element(square.data(), dtype, i, i % 7 == 3 ? 0 : std::abs(square[i]));
      check_elementwise(
          dtype, n,
          [&](Cpu& cpu, Elements& out) {
            cpu.adam().step(nullptr, out.data(), momentum.data(), square.data(), dtype, n, kKeep, kRate, kCorrection,
                            kEps, &kStream);
          },
          [&](uint64_t i) {
            const auto rounded = [dtype](double value) { return in_math(dtype, value); };
            const double root = rounded(std::sqrt(square[i]));
            const double denominator = rounded(rounded(root / rounded(kCorrection)) + rounded(kEps));
            const double change = square[i] == 0 ? 0 : rounded(rounded(rounded(kRate) * momentum[i]) / denominator);
            return rounded(rounded(rounded(kKeep) * weight[i]) - change);
          });
    }
  }
}

TEST(CpuKernels, CopyBytes) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  Elements in = mixed(COHORT_FLOAT32, 1001, 1);
  Elements out(COHORT_FLOAT32, 1001);
  EXPECT_EQ(cpu.kernels().copy(nullptr, out.data(), in.data(), in.nbytes(), &kStream), COHORT_OK);
  EXPECT_TRUE(is_same(in, out));
  EXPECT_EQ(cpu.kernels().copy(nullptr, nullptr, nullptr, 0, &kStream), COHORT_OK);
}

}  // namespace
