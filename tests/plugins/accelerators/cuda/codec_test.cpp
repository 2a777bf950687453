// CUDA's kernels of min-max-uint8, on the CPU: their bytes are those of the plugin `cpu`.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "array.hpp"
#include "elements.hpp"
#include "emulator.hpp"
#include "runtime.hpp"
#include "side.hpp"

namespace cohort::test {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Some chunks in memory.
struct Layout {
  int32_t dtype;
  uint64_t numel, num_chunks;
  uint64_t chunk_shift = 0;  // in bytes
  uint64_t shift = 0;        // of the elements, in elements

  uint64_t nbytes() const { return num_chunks * COHORT_MINMAX_UINT8_NBYTES(numel); }
  uint64_t n() const { return numel * num_chunks; }
};

std::vector<std::byte> encode(Side& side, const Layout& l, const Memory& in, double divisor) {
  const Memory chunks(l.nbytes(), l.chunk_shift);
  EXPECT_EQ(
      side.codec().encode(side.a(), chunks.data(), in.data(), l.dtype, l.numel, l.num_chunks, divisor, side.stream()),
      COHORT_OK)
      << side.take_failure();
  return chunks.bytes();
}

void put(const Memory& to, const std::vector<std::byte>& bytes) {
  std::copy(bytes.begin(), bytes.end(), to.data());
}

std::vector<std::byte> decode(Side& side, const Layout& l, const std::vector<std::byte>& bytes) {
  const Memory chunks(l.nbytes(), l.chunk_shift);
  put(chunks, bytes);
  const Memory out(l.n() * sdk::size_of(l.dtype), l.shift * sdk::size_of(l.dtype));
  EXPECT_EQ(side.codec().decode(side.a(), out.data(), l.dtype, chunks.data(), l.numel, l.num_chunks, side.stream()),
            COHORT_OK);
  return out.bytes();
}

enum class Start { kNone, kOutput, kElsewhere };

std::vector<std::byte> decode_add(Side& side, const Layout& l, const std::vector<std::byte>& bytes, Start from) {
  const Memory chunks(l.nbytes(), l.chunk_shift);
  put(chunks, bytes);
  const FiniteArray out(l.dtype, l.numel, l.shift, 7), elsewhere(l.dtype, l.numel, 1, 8);
  const void* const start = from == Start::kNone ? nullptr : (from == Start::kOutput ? out.data() : elsewhere.data());
  EXPECT_EQ(side.codec().decode_add(side.a(), out.data(), start, l.dtype, chunks.data(), l.numel, l.num_chunks,
                                    side.stream()),
            COHORT_OK);
  return out.bytes();
}

struct BothCodecs {
  Side cpu = Side::cpu();
  Side cuda = Side::cuda();

  /// Encodes, decodes and adds on both.
  void expect_same_chunks(const Layout& l, const Memory& in, double divisor) {
    SCOPED_TRACE(std::to_string(l.num_chunks) + " chunks of " + std::to_string(l.numel) + " " + sdk::name_of(l.dtype) +
                 " at " + std::to_string(l.chunk_shift) + " and " + std::to_string(l.shift));
    const std::vector<std::byte> wanted = encode(cpu, l, in, divisor);
    ASSERT_EQ(encode(cuda, l, in, divisor), wanted);
    expect_same(l.dtype, decode(cpu, l, wanted), decode(cuda, l, wanted));
    for (const Start from : {Start::kNone, Start::kOutput, Start::kElsewhere}) {
      expect_same(l.dtype, decode_add(cpu, l, wanted, from), decode_add(cuda, l, wanted, from));
    }
  }
};

TEST(CudaCodec, HasTheBytesOfTheCpu) {
  BothCodecs both;
  for (const int32_t dtype : kFloats) {
    for (const uint64_t numel : {0u, 1u, 3u, 4u, 17u, 256u, 1031u, 4096u}) {
      for (const uint64_t num_chunks : {1u, 3u}) {
        for (const uint64_t shift : {0u, 1u, 2u}) {
          const Layout l{dtype, numel, num_chunks, 4 * shift, shift};
          both.expect_same_chunks(l, FiniteArray(dtype, l.n(), shift, numel), shift == 1 ? 3.0 : 1.0);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(CudaCodec, HasThemForRangesFarFromZeroAndForTinyAndHugeOnes) {
  BothCodecs both;
  for (const int32_t dtype : kFloats) {
    for (const auto& [from, to] : std::initializer_list<std::pair<double, double>>{{1000.0, 1000.001},
                                                                                   {-65000.0, 65000.0},
                                                                                   {-3e38, 3e38},
                                                                                   {1e-38, 3e-38},
                                                                                   {-1e-30, 1e-31},
                                                                                   {-0.0, 0.0},
                                                                                   {5.0, 5.0},
                                                                                   {-1e300, 1e300}}) {
      for (const double divisor : {1.0, 0.1, 7.0, 8.0, 0.25, 0x1p-140, 0x1p127}) {
        const Layout l{dtype, 515, 2, 0, 0};
        both.expect_same_chunks(l, FiniteArray(dtype, l.n(), 0, 3, from, to), divisor);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(CudaCodec, MarksAChunkWithOneNanOrInfinityAndNoOther) {
  BothCodecs both;
  for (const int32_t dtype : kFloats) {
    for (const double bad : {std::nan(""), kInfinite, -kInfinite}) {
      for (const auto& [numel, at] : {std::pair{1031u, 0u}, std::pair{1031u, 600u}, std::pair{1031u, 1030u},
                                      std::pair{9001u, 600u}, std::pair{9001u, 9000u}}) {
        const Layout l{dtype, numel, 3, 0, 0};
        const FiniteArray in(dtype, l.n(), 0, 4);
        put_element(in.data(), dtype, l.numel + at, bad);
        both.expect_same_chunks(l, in, 1.0);
      }
    }
  }
}

TEST(CudaCodec, ServesAnyNumberOfChunksInAnyOrderOfThreads) {
  BothCodecs both;
  for (const auto order : {cuda_on_cpu::Order::kBackward, cuda_on_cpu::Order::kMixed}) {
    cuda_on_cpu::set_order(order);
    for (const auto& [numel, num_chunks] :
         {std::pair{9u, 300u}, std::pair{2000u, 5u}, std::pair{9000u, 3u}, std::pair{0u, 3u}}) {
      const Layout l{COHORT_FLOAT32, numel, num_chunks, 0, 0};
      both.expect_same_chunks(l, FiniteArray(l.dtype, l.n(), 0, 5), 3.0);
    }
  }
  cuda_on_cpu::set_order(cuda_on_cpu::Order::kForward);
  EXPECT_EQ(cuda_on_cpu::machine().num_scratch, 0u);
}

// More than a grid has rows, and a chunk of more elements than a grid has threads.
TEST(CudaCodec, ServesMoreChunksThanAGridHasRows) {
  BothCodecs both;
  const Layout many{COHORT_BFLOAT16, 9, 1100, 0, 0};
  both.expect_same_chunks(many, FiniteArray(many.dtype, many.n(), 0, 6), 1.0);
  const Layout large{COHORT_FLOAT32, 300007, 1, 0, 0};
  both.expect_same_chunks(large, FiniteArray(large.dtype, large.n(), 0, 6), 1.0);
}

// The largest chunk that a block codes alone has 8192 elements.
TEST(CudaCodec, HasTheBytesOfTheCpuForChunksOfAnySize) {
  BothCodecs both;
  for (const int32_t dtype : kFloats) {
    for (const auto& [numel, num_chunks] : {std::pair{8191u, 2u}, std::pair{8192u, 2u}, std::pair{8193u, 2u}}) {
      for (const uint64_t shift : {0u, 1u}) {
        const Layout l{dtype, numel, num_chunks, 4 * shift, shift};
        both.expect_same_chunks(l, FiniteArray(dtype, l.n(), shift, numel), 3.0);
      }
    }
  }
}

// A block has tables for 8 chunks at a time.
TEST(CudaCodec, AddsManyChunks) {
  BothCodecs both;
  for (const int32_t dtype : kFloats) {
    for (const uint64_t num_chunks : {7u, 8u, 9u, 16u, 19u}) {
      const Layout l{dtype, 5001, num_chunks, 0, 1};
      both.expect_same_chunks(l, FiniteArray(dtype, l.n(), 1, num_chunks), 1.0);
    }
  }
  const Layout large{COHORT_FLOAT32, 40001, 9, 0, 0};  // blocks add up several tiles
  both.expect_same_chunks(large, FiniteArray(large.dtype, large.n(), 0, 9), 1.0);
}

TEST(CudaCodec, CodesInEachReplayOfAGraph) {
  BothCodecs both;
  for (const uint64_t numel : {500u, 20000u}) {
    const Layout l{COHORT_FLOAT32, numel, 2, 0, 0};
    const FiniteArray in(l.dtype, l.n(), 0, 1);
    const Memory chunks(l.nbytes(), 0);
    cuda_on_cpu::Graph graph;
    cuda_on_cpu::machine().graph = &graph;
    EXPECT_EQ(both.cuda.codec().encode(both.cuda.a(), chunks.data(), in.data(), l.dtype, l.numel, l.num_chunks, 3.0,
                                       both.cuda.stream()),
              COHORT_OK);
    cuda_on_cpu::machine().graph = nullptr;
    for (const double scale : {1.0, 0.01}) {
      std::copy_n(FiniteArray(l.dtype, l.n(), 0, 2, -scale, 2 * scale).data(), 4 * l.n(), in.data());
      graph.replay();
      EXPECT_EQ(chunks.bytes(), encode(both.cpu, l, in, 3.0));
    }
  }
}

TEST(CudaCodec, RefusesWhatItCannotDivideByOrAdd) {
  Side cuda = Side::cuda();
  float x[2] = {1, 2};
  std::byte chunk[16];
  for (const double divisor : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(cuda.codec().encode(cuda.a(), chunk, x, COHORT_FLOAT32, 2, 1, divisor, cuda.stream()),
              COHORT_INVALID_ARGUMENT);
    EXPECT_THAT(cuda.take_failure(), testing::HasSubstr("not above 0"));
  }
  EXPECT_EQ(cuda.codec().decode_add(cuda.a(), x, x, COHORT_FLOAT32, chunk, 2, 0, cuda.stream()),
            COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(cuda.take_failure(), testing::HasSubstr("no chunks"));
  EXPECT_EQ(cuda.codec().encode(cuda.a(), chunk, x, COHORT_FLOAT32, 2, 0, 1.0, cuda.stream()), COHORT_OK);
}

}  // namespace
}  // namespace cohort::test
