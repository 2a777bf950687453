// CUDA's kernels over flat arrays, on the CPU, against the plugin `cpu`.
#include <gmock/gmock.h>

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "array.hpp"
#include "elements.hpp"
#include "emulator.hpp"
#include "runtime.hpp"
#include "side.hpp"

namespace cohort::test {
namespace {

/// Both sides, and what a computation gives on each.
struct Both {
  Side cpu = Side::cpu();
  Side cuda = Side::cuda();

  template <class Compute>
  void expect_same_elements(int32_t dtype, Compute compute) {
    expect_same(dtype, compute(cpu), compute(cuda));
  }
};

TEST(CudaElements, AreFilledAsOnTheCpu) {
  Both both;
  for (const int32_t dtype : kAllDtypes) {
    for (const uint64_t n : {0u, 1u, 17u, 257u, 4099u}) {
      for (const double value : {3.0, -1e30, 1e30, 0.1, -0.0, std::nan(""), 65520.0, 1e-45}) {
        for (const uint64_t shift : {0u, 1u, 3u}) {
          const auto filled = [&](Side& side) {
            const Memory out(n * sdk::size_of(dtype), shift * sdk::size_of(dtype));
            EXPECT_EQ(side.core().fill(side.a(), out.data(), dtype, n, value, side.stream()), COHORT_OK);
            return out.bytes();
          };
          EXPECT_EQ(filled(both.cpu), filled(both.cuda)) << n << " of " << sdk::name_of(dtype) << " with " << value;
        }
      }
    }
  }
}

TEST(CudaElements, AreCopied) {
  Side cuda = Side::cuda();
  const Array in(COHORT_FLOAT32, 1000, 1, 1);
  const Memory out(4000, 3);
  EXPECT_EQ(cuda.core().copy(cuda.a(), out.data(), in.data(), 4000, cuda.stream()), COHORT_OK);
  EXPECT_EQ(out.bytes(), in.bytes());
  EXPECT_EQ(cuda.core().copy(cuda.a(), out.data(), out.data(), 4000, cuda.stream()), COHORT_OK);
  EXPECT_EQ(cuda.core().copy(cuda.a(), nullptr, nullptr, 0, cuda.stream()), COHORT_OK);
}

TEST(CudaElements, AreScaledAsOnTheCpu) {
  Both both;
  for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
    both.expect_same_elements(dtype, [&](Side& side) {
      const Array in(dtype, n, shifts.in, 1), out(dtype, n, shifts.out, 2);
      EXPECT_EQ(side.core().scale(side.a(), out.data(), in.data(), dtype, n, 0.3, side.stream()), COHORT_OK);
      EXPECT_EQ(side.core().scale(side.a(), out.data(), out.data(), dtype, n, 0.7, side.stream()), COHORT_OK);
      return out.bytes();
    });
  });
}

TEST(CudaElements, AreAddedAsOnTheCpu) {
  Both both;
  for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
    both.expect_same_elements(dtype, [&](Side& side) {
      const Array x(dtype, n, shifts.in, 1), out(dtype, n, shifts.out, 2);
      EXPECT_EQ(side.core().axpby(side.a(), out.data(), x.data(), dtype, n, 0.1, 0.9, side.stream()), COHORT_OK);
      return out.bytes();
    });
  });
}

TEST(CudaElements, AreCastAsOnTheCpu) {
  Both both;
  for (const int32_t to : kFloats) {
    for_arrays([&](int32_t from, uint64_t n, Shifts shifts) {
      both.expect_same_elements(to, [&](Side& side) {
        const Array in(from, n, shifts.in, 1), out(to, n, shifts.out, 2);
        EXPECT_EQ(side.core().cast(side.a(), out.data(), to, in.data(), from, n, side.stream()), COHORT_OK);
        return out.bytes();
      });
    });
  }
}

TEST(CudaElements, AreSummedAsOnTheCpu) {
  Both both;
  for (const uint64_t num_inputs : {1u, 2u, 4u, 5u, 8u, 65u, 130u}) {
    for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
      if (num_inputs > 8 && n > 300) return;
      both.expect_same_elements(dtype, [&](Side& side) {
        std::vector<std::unique_ptr<Array>> arrays;
        std::vector<const void*> inputs;
        for (uint64_t k = 0; k < num_inputs; ++k) {
          arrays.push_back(std::make_unique<Array>(dtype, n, k + 1 == num_inputs ? shifts.in : shifts.out, 10 + k));
          inputs.push_back(arrays.back()->data());
        }
        EXPECT_EQ(
            side.core().sum_of_n(side.a(), arrays[0]->data(), inputs.data(), num_inputs, dtype, n, 0.2, side.stream()),
            COHORT_OK);
        return arrays[0]->bytes();
      });
    });
  }
  EXPECT_EQ(cuda_on_cpu::machine().num_scratch, 0u);
}

// By then the caller's array has other pointers.
TEST(CudaElements, AreSummedInEachReplayOfAGraph) {
  Both both;
  for (const uint64_t num_inputs : {2u, 64u, 65u}) {
    cuda_on_cpu::Graph graph;
    const Array in(COHORT_FLOAT32, 500, 0, 1), other(COHORT_FLOAT32, 500, 0, 2);
    const Memory out(2000, 0), wanted(2000, 0);
    std::vector<const void*> pointers(num_inputs, in.data());
    const auto sum = [&](Side& side, const Memory& to) {
      EXPECT_EQ(side.core().sum_of_n(side.a(), to.data(), pointers.data(), num_inputs, COHORT_FLOAT32, 500, 0.2,
                                     side.stream()),
                COHORT_OK);
    };
    cuda_on_cpu::machine().graph = &graph;
    sum(both.cuda, out);
    cuda_on_cpu::machine().graph = nullptr;
    for (const uint64_t seed : {3u, 4u}) {
      const Array next(COHORT_FLOAT32, 500, 0, seed);
      std::copy_n(next.data(), 2000, in.data());
      sum(both.cpu, wanted);
      std::fill(pointers.begin(), pointers.end(), other.data());
      graph.replay();
      expect_same(COHORT_FLOAT32, wanted.bytes(), out.bytes());
      std::fill(pointers.begin(), pointers.end(), in.data());
    }
  }
}

TEST(CudaElements, StepAdamAsOnTheCpu) {
  Both both;
  for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
    both.expect_same_elements(dtype, [&](Side& side) {
      const Array weight(dtype, n, shifts.out, 1), momentum(dtype, n, shifts.in, 2), square(dtype, n, shifts.out, 3);
      EXPECT_EQ(side.adam().step(side.a(), weight.data(), momentum.data(), square.data(), dtype, n, 0.999, 0.01, 0.7,
                                 1e-8, side.stream()),
                COHORT_OK);
      return weight.bytes();
    });
  });
}

TEST(CudaElements, ChangeARingAsOnTheCpu) {
  Both both;
  for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
    both.expect_same_elements(dtype, [&](Side& side) {
      const Array x(dtype, n, shifts.out, 1), left(dtype, n, shifts.in, 2), right(dtype, n, shifts.out, 3),
          own(dtype, n, shifts.out, 4);
      EXPECT_EQ(side.ring().change(side.a(), x.data(), left.data(), right.data(), own.data(), dtype, n, side.stream()),
                COHORT_OK);
      return x.bytes();
    });
  });
}

TEST(CudaElements, OfOtherTypesAreRefusedWithTheKernelsName) {
  Side cuda = Side::cuda();
  const cohort_kernels_core_1& core = cuda.core();
  int64_t x[2] = {1, 2};
  const void* const inputs[] = {x};
  const auto expect_refusal = [&](cohort_status status, const std::string& text,
                                  cohort_status wanted = COHORT_INVALID_ARGUMENT) {
    EXPECT_EQ(status, wanted);
    EXPECT_THAT(cuda.take_failure(), testing::HasSubstr(text));
  };
  expect_refusal(core.scale(cuda.a(), x, x, COHORT_INT64, 2, 2.0, cuda.stream()),
                 "scale has no elements of type int64");
  expect_refusal(core.fill(cuda.a(), x, 99, 2, 2.0, cuda.stream()), "fill has no elements of type unknown (99)",
                 COHORT_UNIMPLEMENTED);
  expect_refusal(core.cast(cuda.a(), x, COHORT_INT64, x, COHORT_INT64, 2, cuda.stream()), "cast");
  expect_refusal(core.cast(cuda.a(), x, COHORT_FLOAT64, x, COHORT_INT64, 2, cuda.stream()), "cast");
  expect_refusal(core.sum_of_n(cuda.a(), x, inputs, 0, COHORT_FLOAT64, 2, 1.0, cuda.stream()), "no inputs");
  expect_refusal(core.found_inf(cuda.a(), x, COHORT_INT64, 2, reinterpret_cast<uint32_t*>(x), cuda.stream()),
                 "found_inf");
  expect_refusal(cuda.adam().step(cuda.a(), x, x, x, COHORT_INT64, 2, 1, 1, 1, 1, cuda.stream()), "adam");
  EXPECT_EQ(x[1], 2);
}

double sum_of(Side& side, const Memory& x, const Memory& y, int32_t dtype, uint64_t n) {
  const Memory result(sizeof(double), 0);
  auto* const number = reinterpret_cast<double*>(result.data());
  EXPECT_EQ(side.core().dot(side.a(), x.data(), y.data(), dtype, n, number, side.stream()), COHORT_OK);
  return *number;
}

TEST(CudaReductions, AreTheCpusUpToRoundingsInAnyOrderOfThreads) {
  Both both;
  for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
    const FiniteArray x(dtype, n, shifts.out, 1), y(dtype, n, shifts.in, 2);
    const double wanted = sum_of(both.cpu, x, y, dtype, n);
    cuda_on_cpu::set_order(cuda_on_cpu::Order::kForward);
    const double got = sum_of(both.cuda, x, y, dtype, n);
    EXPECT_NEAR(got, wanted, 1e-15 * static_cast<double>(n));
    for (const auto order : {cuda_on_cpu::Order::kBackward, cuda_on_cpu::Order::kMixed}) {
      cuda_on_cpu::set_order(order);
      EXPECT_EQ(sum_of(both.cuda, x, y, dtype, n), got);
    }
    cuda_on_cpu::set_order(cuda_on_cpu::Order::kForward);
    double squares = 0;
    EXPECT_EQ(both.cuda.core().square_sum(both.cuda.a(), x.data(), dtype, n, &squares, both.cuda.stream()), COHORT_OK);
    EXPECT_EQ(squares, sum_of(both.cuda, x, x, dtype, n));
  });
  EXPECT_EQ(cuda_on_cpu::machine().num_scratch, 0u);
}

TEST(CudaReductions, CarryNanAndInfinity) {
  Side cuda = Side::cuda();
  for (const int32_t dtype : kFloats) {
    const FiniteArray x(dtype, 300, 0, 1);
    put_element(x.data(), dtype, 299, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(sum_of(cuda, x, x, dtype, 300), std::numeric_limits<double>::infinity());
    put_element(x.data(), dtype, 3, std::nan(""));
    EXPECT_TRUE(std::isnan(sum_of(cuda, x, x, dtype, 300)));
  }
}

uint32_t found_inf(Side& side, const void* x, int32_t dtype, uint64_t n) {
  const Memory result(sizeof(uint32_t), 4);
  auto* const found = reinterpret_cast<uint32_t*>(result.data());
  EXPECT_EQ(side.core().found_inf(side.a(), x, dtype, n, found, side.stream()), COHORT_OK);
  EXPECT_TRUE(result.is_intact());
  return *found;
}

TEST(CudaReductions, FindOneNanOrInfinityAnywhere) {
  Side cuda = Side::cuda();
  for_arrays([&](int32_t dtype, uint64_t n, Shifts shifts) {
    const FiniteArray x(dtype, n, shifts.in, 1);
    EXPECT_EQ(found_inf(cuda, x.data(), dtype, n), 0u);
    if (n == 0) return;
    for (const uint64_t at : {uint64_t{0}, n / 2, n - 1}) {
      const double before = get_element(x.data(), dtype, at);
      put_element(x.data(), dtype, at, at == 0 ? std::nan("") : -std::numeric_limits<double>::infinity());
      EXPECT_EQ(found_inf(cuda, x.data(), dtype, n), 1u) << "at " << at;
      put_element(x.data(), dtype, at, before);
    }
  });
}

// Only the last page of the 4 GiB is memory; the others are the system's page of zeros.
TEST(CudaReductions, CountBeyond31Bits) {
  Side cuda = Side::cuda();
  const uint64_t n = (uint64_t{1} << 31) + 1;
  void* const x = ::mmap(nullptr, 2 * n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(x, MAP_FAILED);
  EXPECT_EQ(found_inf(cuda, x, COHORT_BFLOAT16, n), 0u);
  put_element(x, COHORT_BFLOAT16, n - 1, std::numeric_limits<double>::infinity());
  EXPECT_EQ(found_inf(cuda, x, COHORT_BFLOAT16, n), 1u);
  ::munmap(x, 2 * n);
}

}  // namespace
}  // namespace cohort::test
