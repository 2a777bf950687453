// Compares the batched kernels of min-max-uint8 with its definition, which tests/support/minmax_uint8.hpp computes one
// element after another.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "buffer.hpp"
#include "minmax_uint8.hpp"

namespace cohort::conformance {
namespace {

constexpr uint64_t kChunks = 3;
constexpr double kQuietNan = std::numeric_limits<double>::quiet_NaN();

cohort_accelerator* codec_accelerator() {
  return subject().codec().accelerator;
}

std::vector<double> spread(uint64_t n, double from, double to) {
  std::vector<double> values(n);
  uint64_t state = 1;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = from + (to - from) * (static_cast<double>(state >> 11) * 0x1p-53);
  }
  return values;
}

/// Returns chunk c of the values in `in`, encoded by the definition.
test::MinmaxUint8 chunk_of(const Tensor& in, uint64_t c, uint64_t numel, double divisor) {
  const std::vector<double> values = in.values();
  std::vector<float> singles;
  for (uint64_t i = 0; i < numel; ++i) {
    singles.push_back(static_cast<float>(values[c * numel + i]) / static_cast<float>(divisor));
  }
  return test::encode(singles);
}

/// Chunks in memory of the device. They begin 4 bytes behind an aligned address.
Buffer chunks_of(uint64_t numel) {
  return Buffer(kChunks * COHORT_MINMAX_UINT8_NBYTES(numel), 4);
}

/// Fails the test if bytes of the chunks are not those of the definition, or if bytes behind the codes have changed.
void expect_chunks(const Buffer& chunks, const Tensor& in, uint64_t numel, double divisor) {
  const std::vector<std::byte> got = chunks.get();
  for (uint64_t c = 0; c < kChunks; ++c) {
    const test::MinmaxUint8 wanted = chunk_of(in, c, numel, divisor);
    std::vector<std::byte> bytes(COHORT_MINMAX_UINT8_NBYTES(numel), std::byte{0xa5});
    std::memcpy(bytes.data(), &wanted.min, 4);
    std::memcpy(bytes.data() + 4, &wanted.max, 4);
    if (numel > 0) std::memcpy(bytes.data() + 8, wanted.codes.data(), numel);
    ASSERT_EQ(std::memcmp(got.data() + c * bytes.size(), bytes.data(), bytes.size()), 0) << "chunk " << c;
  }
}

/// Encodes, decodes, and adds up what was encoded.
void check_codec(int32_t dtype, uint64_t numel, const std::vector<double>& values, double divisor) {
  const cohort_kernels_minmax_uint8_1& k = subject().codec();
  const cohort_stream* const stream = subject().stream();
  const Tensor in(dtype, values), out(dtype, kChunks * numel);
  const Buffer chunks = chunks_of(numel);
  ASSERT_EQ(k.encode(codec_accelerator(), chunks.data(), in.data(), dtype, numel, kChunks, divisor, stream), COHORT_OK);
  expect_chunks(chunks, in, numel, divisor);
  if (testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(k.decode(codec_accelerator(), out.data(), dtype, chunks.data(), numel, kChunks, stream), COHORT_OK);
  std::vector<std::vector<float>> decoded;
  for (uint64_t c = 0; c < kChunks; ++c) decoded.push_back(test::decode(chunk_of(in, c, numel, divisor)));
  expect_elements(out, dtype, [&](uint64_t i) { return double{decoded[i / numel][i % numel]}; });

  const std::vector<double> start = finite(dtype, numel, 5);
  const Tensor elsewhere(dtype, start), in_place(dtype, start), sum(dtype, numel), total(dtype, numel);
  const auto add = [&](const Tensor& to, const void* from) {
    ASSERT_EQ(k.decode_add(codec_accelerator(), to.data(), from, dtype, chunks.data(), numel, kChunks, stream),
              COHORT_OK);
  };
  const auto sum_of = [&](uint64_t i, bool has_start) {
    double value = has_start ? start[i] : double{decoded[0][i]};
    for (uint64_t c = has_start ? 0 : 1; c < kChunks; ++c) value = in_math(dtype, value + double{decoded[c][i]});
    return value;
  };
  add(total, elsewhere.data());
  add(in_place, in_place.data());
  add(sum, nullptr);
  expect_elements(total, dtype, [&](uint64_t i) { return sum_of(i, true); });
  expect_elements(in_place, dtype, [&](uint64_t i) { return sum_of(i, true); });
  expect_elements(sum, dtype, [&](uint64_t i) { return sum_of(i, false); });
}

TEST(Codec, HasTheBitsOfItsDefinition) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    check_codec(dtype, n, spread(kChunks * n, -1.0, 1.0), 1.0);
    check_codec(dtype, n, spread(kChunks * n, -9.0, -2.0), 3.0);
  });
}

TEST(Codec, HasThemForRangesFarFromZeroAndForTinyAndHugeOnes) {
  for (const auto& [from, to] : std::initializer_list<std::pair<double, double>>{{1000.0, 1000.001},
                                                                                 {-16777216.0, -16777000.0},
                                                                                 {1e-9, 3e-9},
                                                                                 {-1e-29, 1e-29},
                                                                                 {1e-30, 1.0000001e-30},
                                                                                 {-1e-38, 1e-38},
                                                                                 {-3.4e38, 3.4e38},
                                                                                 {5.0, 5.0},
                                                                                 {0.0, 0.0}}) {
    SCOPED_TRACE(std::to_string(from) + " .. " + std::to_string(to));
    for (const uint64_t n : kSizes) {
      check_codec(COHORT_FLOAT32, n, spread(kChunks * n, from, to), 1.0);
      check_codec(COHORT_FLOAT64, n, spread(kChunks * n, from, to), 3.0);
    }
  }
}

/// Each range has a chunk with all codes. The ranges reach from the smallest floats to the largest ones.
TEST(Codec, DecodesEveryCodeOfManyRanges) {
  constexpr uint64_t kCodes = 256, kRanges = 600;
  std::vector<std::byte> bytes(kRanges * COHORT_MINMAX_UINT8_NBYTES(kCodes));
  std::vector<float> wanted;
  const std::vector<double> mantissas = spread(2 * kRanges, -2.0, 2.0);
  for (uint64_t k = 0; k < kRanges; ++k) {
    test::MinmaxUint8 chunk;
    const auto exponent = static_cast<int>(k * 250 / kRanges) - 125;
    const auto [min, max] = std::minmax(mantissas[2 * k], mantissas[2 * k + 1]);
    chunk.min = static_cast<float>(std::ldexp(min, exponent));
    chunk.max = static_cast<float>(std::ldexp(max, exponent));
    for (uint64_t code = 0; code < kCodes; ++code) chunk.codes.push_back(static_cast<uint8_t>(code));
    std::byte* const to = bytes.data() + k * COHORT_MINMAX_UINT8_NBYTES(kCodes);
    std::memcpy(to, &chunk.min, 4);
    std::memcpy(to + 4, &chunk.max, 4);
    std::memcpy(to + 8, chunk.codes.data(), kCodes);
    for (const float value : test::decode(chunk)) wanted.push_back(value);
  }
  Buffer chunks(bytes.size());
  chunks.put(bytes);
  const Tensor out(COHORT_FLOAT32, kRanges * kCodes);
  const cohort_kernels_minmax_uint8_1& k = subject().codec();
  ASSERT_EQ(
      k.decode(codec_accelerator(), out.data(), COHORT_FLOAT32, chunks.data(), kCodes, kRanges, subject().stream()),
      COHORT_OK);
  expect_elements(out, COHORT_FLOAT32, [&](uint64_t i) { return double{wanted[i]}; });
}

TEST(Codec, RoundsHalvesToEven) {
  std::vector<double> values;
  for (int i = 0; i <= 512; ++i) values.push_back(std::min(i, 510) / 2.0);
  check_codec(COHORT_FLOAT32, values.size() / kChunks, values, 1.0);
}

TEST(Codec, SpoilsOnlyTheChunkThatIsNotFinite) {
  for_types_and_sizes([](int32_t dtype, uint64_t n) {
    for (const double bad : {kQuietNan, std::numeric_limits<double>::infinity()}) {
      std::vector<double> values = spread(kChunks * n, -1.0, 1.0);
      if (n > 0) values[2 * n - 1] = bad;  // the last of the second chunk
      check_codec(dtype, n, values, 1.0);
    }
  });
  check_codec(COHORT_FLOAT64, 1, {1.0, 1e39, 2.0}, 1.0);    // too large for float32
  check_codec(COHORT_FLOAT32, 1, {1.0, 3e38, 2.0}, 0.125);  // after the division
}

/// Sends the values as one chunk and returns those that arrive.
std::vector<double> through_codec(const std::vector<double>& values) {
  const cohort_kernels_minmax_uint8_1& k = subject().codec();
  const uint64_t n = values.size();
  const Tensor in(COHORT_FLOAT32, values), out(COHORT_FLOAT32, n);
  const Buffer chunk(COHORT_MINMAX_UINT8_NBYTES(n));
  EXPECT_EQ(k.encode(codec_accelerator(), chunk.data(), in.data(), COHORT_FLOAT32, n, 1, 1.0, subject().stream()),
            COHORT_OK);
  EXPECT_EQ(k.decode(codec_accelerator(), out.data(), COHORT_FLOAT32, chunk.data(), n, 1, subject().stream()),
            COHORT_OK);
  return out.values();
}

TEST(Codec, ErrsByHalfAStepAtMost) {
  for (const auto& [from, to] : std::initializer_list<std::pair<double, double>>{
           {-1.0, 1.0}, {0.0, 1e-9}, {-1e-20, 3e-20}, {10.0, 11.0}, {-1e30, 2e30}, {123456.0, 123456.2}}) {
    const std::vector<double> sent = spread(5000, from, to), got = through_codec(sent);
    const double half_step = 0.5 * (to - from) / 255.0, magnitude = std::max(std::abs(from), std::abs(to));
    for (size_t i = 0; i < sent.size(); ++i) {
      ASSERT_LE(std::abs(got[i] - sent[i]), half_step + 4e-7 * magnitude) << sent[i];
    }
  }
}

TEST(Codec, KeepsZerosAndConstants) {
  const std::vector<double> kept = through_codec({0.0, -0.3, 0.0, 1.7, -0.0});
  for (const size_t zero : {0u, 2u, 4u}) EXPECT_EQ(kept[zero], 0.0);
  for (const double constant : {1.0, -3.3e-12, 7e20}) {
    for (const double value : through_codec(std::vector<double>(9, constant))) {
      EXPECT_NEAR(value, constant, 4e-7 * std::abs(constant));
    }
  }
}

TEST(Codec, RefusesOtherTypesNoChunksAndBadDivisors) {
  const cohort_kernels_minmax_uint8_1& k = subject().codec();
  const cohort_stream* const stream = subject().stream();
  const Tensor x(COHORT_FLOAT64, {1, 2, 3, 4});
  const Buffer chunks = chunks_of(4);
  EXPECT_EQ(k.encode(codec_accelerator(), chunks.data(), x.data(), COHORT_INT64, 4, 1, 1.0, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.decode(codec_accelerator(), x.data(), COHORT_UINT8, chunks.data(), 4, 1, stream),
            COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.decode_add(codec_accelerator(), x.data(), x.data(), 99, chunks.data(), 4, 1, stream),
            COHORT_UNIMPLEMENTED);
  EXPECT_EQ(k.decode_add(codec_accelerator(), x.data(), nullptr, COHORT_FLOAT64, chunks.data(), 4, 0, stream),
            COHORT_INVALID_ARGUMENT);
  for (const double divisor : {0.0, -1.0, kQuietNan}) {
    EXPECT_EQ(k.encode(codec_accelerator(), chunks.data(), x.data(), COHORT_FLOAT64, 4, 1, divisor, stream),
              COHORT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(x.values(), (std::vector<double>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace cohort::conformance
