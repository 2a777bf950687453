// Kernels with planted mistakes, on the CPU: each of them is found, so the tests beside this one would find it in ours.
#include <gmock/gmock.h>

#include "array.hpp"
#include "emulator.hpp"

#include "block.cuh"
#include "fill.cuh"
#include "map.cuh"

namespace cohort::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Mistake = void (*)(int* out);

void run(Mistake kernel, int* out) {
  EXPECT_EQ(launch(kernel, dim3(1), kThreads, nullptr, out), cudaSuccess);
}

// reduce_block without its barrier.
void without_barrier(int* out) {
  __shared__ int of_warps[kWarps];
  const int value = reduce_warp(1, Plus());
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  int result = of_warps[0];
  for (unsigned warp = 1; warp < kWarps; ++warp) result += of_warps[warp];
  out[threadIdx.x] = result;
}

void with_barrier(int* out) {
  __shared__ int of_warps[kWarps];
  out[threadIdx.x] = reduce_block(1, Plus(), of_warps);
}

void at_two_barriers(int* out) {
  if (threadIdx.x < 100) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

void left_before_barrier(int* out) {
  if (threadIdx.x == 255) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

void without_a_lane(int* out) {
  if (threadIdx.x == 70) return;
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1, 1);
}

TEST(CudaFaults, MissingBarrierIsFound) {
  int out[kThreads] = {};
  run(with_barrier, out);
  EXPECT_THAT(out, testing::Each(static_cast<int>(kThreads)));
#ifdef __SANITIZE_THREAD__
  EXPECT_DEATH(run(without_barrier, out), "data race");
#else
  run(without_barrier, out);
  EXPECT_NE(out[0], static_cast<int>(kThreads));
#endif
}

TEST(CudaFaults, ThreadsAtDifferentBarriersAreFound) {
  int out[kThreads] = {};
  EXPECT_THAT(
      [&] { run(at_two_barriers, out); },
      ThrowsMessage<cuda_on_cpu::Fault>(AllOf(HasSubstr("block 0: thread 100 waits at the barrier at faults_test.cpp:"),
                                              HasSubstr("others at faults_test.cpp:"))));
  run(with_barrier, out);  // the fibers are made anew
  EXPECT_EQ(out[0], static_cast<int>(kThreads));
}

TEST(CudaFaults, ThreadThatLeavesBeforeABarrierIsFound) {
  int out[kThreads] = {};
  EXPECT_THAT([&] { run(left_before_barrier, out); },
              ThrowsMessage<cuda_on_cpu::Fault>(HasSubstr("thread 255 has left before the barrier at")));
}

TEST(CudaFaults, MissingLaneOfAShuffleIsFound) {
  int out[kThreads] = {};
  EXPECT_THAT([&] { run(without_a_lane, out); },
              ThrowsMessage<cuda_on_cpu::Fault>(HasSubstr("lane 6 does not come to the shuffle at")));
}

TEST(CudaFaults, WriteBehindTheEndIsFound) {
  const test::Memory out(100, 0);
  const auto fill_one_more = [&] {
    launch(fill_kernel<uint8_t>, dim3(1), kThreads, nullptr, reinterpret_cast<uint8_t*>(out.data()), 101, Split{0, 6},
           uint8_t{1});
  };
#ifdef __SANITIZE_ADDRESS__
  EXPECT_DEATH(fill_one_more(), "heap-buffer-overflow");
#else
  fill_one_more();
  EXPECT_FALSE(out.is_intact());
#endif
}

struct Twice {
  float operator()(const float (&values)[1]) const { return 2 * values[0]; }
};

#ifndef __SANITIZE_THREAD__
TEST(CudaFaults, PackAtAnOddAddressIsFound) {
  const test::FiniteArray in(COHORT_FLOAT32, 64, 1, 1), out(COHORT_FLOAT32, 64, 0, 2);
  const Inputs<float, 1> inputs{{reinterpret_cast<const float*>(in.data())}};
  const auto map_packs = [&](Split split) {
    launch(map_kernel<Twice, float, float, 1>, dim3(1), kThreads, nullptr, reinterpret_cast<float*>(out.data()), inputs,
           64, split, Twice());
  };
  map_packs({64, 0});
  EXPECT_DEATH(map_packs({0, 16}), "misaligned address");
}
#endif

}  // namespace
}  // namespace cohort::cuda
