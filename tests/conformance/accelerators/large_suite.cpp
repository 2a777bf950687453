// Arrays of so many elements that each thread of a GPU works on several, and of more bytes than 32 bits count. On other
// devices they take minutes, so only fast ones are given them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "minmax_uint8.hpp"
#include "subject.hpp"

namespace cohort::conformance {
namespace {

constexpr uint64_t kLarge = (uint64_t{1} << 26) + 3;
constexpr uint64_t kHuge = (uint64_t{1} << 30) + (uint64_t{1} << 18) + 1;  // floats of more than 2^32 bytes
constexpr uint64_t kPiece = uint64_t{1} << 24;                             // elements that the host has at a time

const cohort_stream* stream() {
  return subject().stream();
}

/// A number between -1 and 1 for each index, with 24 bits.
float value_at(uint64_t index) {
  const uint64_t mixed = index * 0x9e3779b97f4a7c15u >> 40;
  return static_cast<float>(mixed) * 0x1p-23f - 1.0f;
}

/// Elements in memory of the device, which begin one element behind an aligned address.
template <class T>
class LargeArray {
 public:
  explicit LargeArray(uint64_t n) : n_(n), memory_(allocate((n + 1) * sizeof(T))) {}
  LargeArray(uint64_t n, float (*value)(uint64_t)) : LargeArray(n) {
    for_pieces([&](std::vector<T>& piece, uint64_t first) {
      for (uint64_t i = 0; i < piece.size(); ++i) piece[i] = value(first + i);
      copy(data() + first, piece.data(), piece.size());
    });
  }
  ~LargeArray() { subject().device()->release(memory_, *stream()); }
  LargeArray(const LargeArray&) = delete;
  LargeArray& operator=(const LargeArray&) = delete;

  T* data() const { return memory_ + 1; }
  std::vector<T> values() const {
    std::vector<T> all(n_);
    copy(all.data(), data(), n_);
    return all;
  }
  /// Fails the test if an element is not `wanted(i)`.
  template <class Wanted>
  void expect(Wanted wanted) const {
    for_pieces([&](std::vector<T>& piece, uint64_t first) {
      copy(piece.data(), data() + first, piece.size());
      for (uint64_t i = 0; i < piece.size(); ++i) {
        const T value = wanted(first + i);
        if (piece[i] != value) FAIL() << "element " << first + i << " is " << piece[i] << ", not " << value;
      }
    });
  }

 private:
  uint64_t n_;
  T* memory_;

  static T* allocate(uint64_t nbytes) { return static_cast<T*>(subject().device()->alloc(nbytes, *stream())); }
  static void copy(T* to, const T* from, uint64_t n) { subject().device()->copy(to, from, n * sizeof(T), *stream()); }

  template <class Body>
  void for_pieces(Body body) const {
    std::vector<T> piece;
    for (uint64_t first = 0; first < n_ && !testing::Test::HasFatalFailure(); first += piece.size()) {
      piece.resize(std::min(kPiece, n_ - first));
      body(piece, first);
    }
  }
};

using Floats = LargeArray<float>;

class Large : public testing::Test {
 protected:
  void SetUp() override {
    const Device* const device = subject().device();
    if (!device || !device->is_fast()) GTEST_SKIP() << "arrays of gigabytes are for GPUs";
  }

  const cohort_kernels_core_1& core() const { return subject().core(); }
  const cohort_kernels_minmax_uint8_1& codec() const { return subject().codec(); }

  /// Fails the test unless the call succeeded.
  static void check(cohort_status status) { ASSERT_EQ(status, COHORT_OK); }
  double read(const LargeArray<double>& result) const { return result.values()[0]; }
};

TEST_F(Large, ArraysAreFilledCopiedAndCast) {
  const Floats x(kLarge, value_at), out(kLarge);
  check(core().fill(core().accelerator, out.data(), COHORT_FLOAT32, kLarge, 0.5, stream()));
  out.expect([](uint64_t) { return 0.5f; });
  check(core().copy(core().accelerator, out.data(), x.data(), kLarge * sizeof(float), stream()));
  out.expect(value_at);
  const LargeArray<double> wide(kLarge);
  check(core().cast(core().accelerator, wide.data(), COHORT_FLOAT64, x.data(), COHORT_FLOAT32, kLarge, stream()));
  wide.expect([](uint64_t i) { return double{value_at(i)}; });
}

TEST_F(Large, ArraysAreScaledAndAdded) {
  const Floats x(kLarge, value_at), y(kLarge, [](uint64_t i) { return value_at(i + 1); }), out(kLarge);
  check(core().scale(core().accelerator, out.data(), x.data(), COHORT_FLOAT32, kLarge, 0.3, stream()));
  out.expect([](uint64_t i) { return 0.3f * value_at(i); });
  check(core().axpby(core().accelerator, y.data(), x.data(), COHORT_FLOAT32, kLarge, 0.1, 0.9, stream()));
  y.expect([](uint64_t i) {
    const float product = 0.1f * value_at(i), other = 0.9f * value_at(i + 1);
    return product + other;
  });
}

TEST_F(Large, NumbersOfInputsAreSummed) {
  const Floats x(kLarge, value_at), y(kLarge, [](uint64_t i) { return value_at(i + 1); }), out(kLarge);
  for (const uint64_t num_inputs : {2u, 3u, 4u, 8u}) {
    std::vector<const void*> inputs;
    for (uint64_t k = 0; k < num_inputs; ++k) inputs.push_back(k % 2 == 0 ? x.data() : y.data());
    check(core().sum_of_n(core().accelerator, out.data(), inputs.data(), num_inputs, COHORT_FLOAT32, kLarge, 0.2,
                          stream()));
    out.expect([=](uint64_t i) {
      float sum = value_at(i);
      for (uint64_t k = 1; k < num_inputs; ++k) sum += value_at(k % 2 == 0 ? i : i + 1);
      return 0.2f * sum;
    });
  }
}

TEST_F(Large, ArraysAreReduced) {
  const Floats x(kLarge, value_at), y(kLarge, [](uint64_t i) { return value_at(i + 1); });
  const LargeArray<double> result(1);
  long double products = 0, squares = 0;
  for (uint64_t i = 0; i < kLarge; ++i) {
    products += static_cast<long double>(value_at(i)) * static_cast<long double>(value_at(i + 1));
    squares += static_cast<long double>(value_at(i)) * static_cast<long double>(value_at(i));
  }
  const double tolerance = 1e-11 * static_cast<double>(squares);
  check(core().dot(core().accelerator, x.data(), y.data(), COHORT_FLOAT32, kLarge, result.data(), stream()));
  EXPECT_NEAR(read(result), static_cast<double>(products), tolerance);
  check(core().square_sum(core().accelerator, x.data(), COHORT_FLOAT32, kLarge, result.data(), stream()));
  EXPECT_NEAR(read(result), static_cast<double>(squares), tolerance);
}

TEST_F(Large, ArraysAreSearchedToTheirEnd) {
  const Floats x(kLarge, [](uint64_t i) { return i + 1 == kLarge ? -INFINITY : value_at(i); });
  const LargeArray<uint32_t> found(1);
  const auto is_found = [&](uint64_t n) {
    check(core().found_inf(core().accelerator, x.data(), COHORT_FLOAT32, n, found.data(), stream()));
    return found.values()[0];
  };
  EXPECT_EQ(is_found(kLarge), 1u);
  EXPECT_EQ(is_found(kLarge - 1), 0u);
}

TEST_F(Large, WeightsAreStepped) {
  const auto square_at = [](uint64_t i) { return value_at(i) * value_at(i); };
  const Floats weight(kLarge, value_at), momentum(kLarge, value_at), square(kLarge, square_at);
  const cohort_kernels_adam_1& adam = subject().adam();
  check(adam.step(adam.accelerator, weight.data(), momentum.data(), square.data(), COHORT_FLOAT32, kLarge, 0.5, 0.25,
                  2.0, 1e-8, stream()));
  weight.expect([&](uint64_t i) {
    const float product = 0.25f * value_at(i), root = std::sqrt(square_at(i)) / 2.0f, kept = 0.5f * value_at(i);
    return square_at(i) == 0 ? kept : kept - product / (root + 1e-8f);
  });
  const Floats x(kLarge, value_at), own(kLarge, [](uint64_t i) { return value_at(i + 1); });
  const cohort_kernels_ring_1& ring = subject().ring();
  check(ring.change(ring.accelerator, x.data(), momentum.data(), own.data(), own.data(), COHORT_FLOAT32, kLarge,
                    stream()));
  x.expect([](uint64_t i) {
    const float sum = value_at(i) + value_at(i) / 3.0f + value_at(i + 1) / 3.0f, product = 5.0f * value_at(i + 1);
    return sum - product / 3.0f;
  });
}

/// Chunks of one array after another, by the definition.
std::vector<std::byte> defined_chunks(const std::vector<float>& values, uint64_t numel, uint64_t num_chunks) {
  const uint64_t nbytes = COHORT_MINMAX_UINT8_NBYTES(numel);
  std::vector<std::byte> bytes(num_chunks * nbytes);
  for (uint64_t c = 0; c < num_chunks; ++c) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(c * numel);
    const test::MinmaxUint8 chunk = test::encode({first, first + static_cast<std::ptrdiff_t>(numel)});
    std::memcpy(bytes.data() + c * nbytes, &chunk.min, 4);
    std::memcpy(bytes.data() + c * nbytes + 4, &chunk.max, 4);
    std::memcpy(bytes.data() + c * nbytes + COHORT_MINMAX_UINT8_HEADER_NBYTES, chunk.codes.data(), numel);
  }
  return bytes;
}

TEST_F(Large, ChunksHaveTheBitsOfTheirDefinition) {
  for (const uint64_t num_chunks : {1u, 3u}) {
    const uint64_t numel = kLarge / num_chunks, n = numel * num_chunks, nbytes = COHORT_MINMAX_UINT8_NBYTES(numel);
    const Floats in(n, value_at), out(n), sum(numel);
    const LargeArray<uint32_t> chunks(num_chunks * nbytes / sizeof(uint32_t));  // chunks are aligned to 4 bytes
    check(core().fill(core().accelerator, chunks.data(), COHORT_UINT8, num_chunks * nbytes, 0, stream()));
    check(
        codec().encode(codec().accelerator, chunks.data(), in.data(), COHORT_FLOAT32, numel, num_chunks, 1, stream()));
    const std::vector<float> values = in.values();
    const std::vector<std::byte> wanted = defined_chunks(values, numel, num_chunks);
    ASSERT_EQ(std::memcmp(chunks.values().data(), wanted.data(), wanted.size()), 0);
    check(codec().decode(codec().accelerator, out.data(), COHORT_FLOAT32, chunks.data(), numel, num_chunks, stream()));
    check(codec().decode_add(codec().accelerator, sum.data(), nullptr, COHORT_FLOAT32, chunks.data(), numel, num_chunks,
                             stream()));
    std::vector<float> sums(numel), decoded;
    for (uint64_t c = 0; c < num_chunks; ++c) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(c * numel);
      const std::vector<float> chunk = test::through_codec({first, first + static_cast<std::ptrdiff_t>(numel)});
      for (uint64_t i = 0; i < numel; ++i) sums[i] = c == 0 ? chunk[i] : sums[i] + chunk[i];
      decoded.insert(decoded.end(), chunk.begin(), chunk.end());
    }
    out.expect([&](uint64_t i) { return decoded[i]; });
    sum.expect([&](uint64_t i) { return sums[i]; });
  }
}

TEST_F(Large, ArraysBeyond32BitsOfBytesAreScaledAndCoded) {
  const Floats x(kHuge, value_at);
  check(core().scale(core().accelerator, x.data(), x.data(), COHORT_FLOAT32, kHuge, 0.5, stream()));
  x.expect([](uint64_t i) { return 0.5f * value_at(i); });
  const LargeArray<uint32_t> chunk(COHORT_MINMAX_UINT8_NBYTES(kHuge) / sizeof(uint32_t));
  check(codec().encode(codec().accelerator, chunk.data(), x.data(), COHORT_FLOAT32, kHuge, 1, 1, stream()));
  check(codec().decode(codec().accelerator, x.data(), COHORT_FLOAT32, chunk.data(), kHuge, 1, stream()));
  float min = 0, max = 0;
  for (uint64_t i = 0; i < kHuge; ++i) {
    min = std::min(min, 0.5f * value_at(i));
    max = std::max(max, 0.5f * value_at(i));
  }
  const test::MinmaxGrid grid(min, max);
  x.expect([&](uint64_t i) {
    const float code = std::rint(0.5f * value_at(i) * grid.scale) - grid.lower;
    return (std::min(255.0f, std::max(0.0f, code)) + grid.lower) / grid.scale;
  });
}

}  // namespace
}  // namespace cohort::conformance
