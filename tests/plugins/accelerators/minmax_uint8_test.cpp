// The codec of the cpu kernels: against its definition, its properties, and itself on other instruction sets.
#include <cmath>
#include <cstring>
#include <functional>

#include <gmock/gmock.h>

#include "cpu.hpp"
#include "minmax_uint8.hpp"

namespace {

using namespace cohort::test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kChunkSizes[] = {1, 2, 3, 7, 8, 31, 32, 33, 63, 65, 257, 4099, 100'003};

/// A chunk in memory, with bytes around it that must not change.
class Chunk {
 public:
  explicit Chunk(uint64_t n) : n_(n), memory_(COHORT_MINMAX_UINT8_NBYTES(n) / 4 + 2, kGuard) {}
  void* data() { return memory_.data() + 1; }
  MinmaxUint8 content() {
    MinmaxUint8 content;
    std::memcpy(&content.min, data(), 4);
    std::memcpy(&content.max, memory_.data() + 2, 4);
    const auto* codes = reinterpret_cast<const uint8_t*>(memory_.data() + 3);
    content.codes.assign(codes, codes + n_);
    return content;
  }
  std::vector<uint32_t>& words() { return memory_; }
  bool is_intact() const { return memory_.front() == kGuard && memory_.back() == kGuard; }

 private:
  static constexpr uint32_t kGuard = 0xa5a5a5a5u;
  uint64_t n_;
  std::vector<uint32_t> memory_;
};

Elements elements_of(int32_t dtype, const std::vector<double>& values) {
  Elements elements(dtype, values.size());
  for (uint64_t i = 0; i < values.size(); ++i) put_element(elements.data(), dtype, i, values[i]);
  return elements;
}

/// As kernels read them.
std::vector<float> singles_of(Elements& elements, float divisor = 1.0f) {
  std::vector<float> values;
  for (uint64_t i = 0; i < elements.size(); ++i) values.push_back(static_cast<float>(elements[i]) / divisor);
  return values;
}

std::vector<double> spread(uint64_t n, double from, double to, uint64_t seed = 1) {
  std::vector<double> values(n);
  uint64_t state = seed;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = from + (to - from) * (static_cast<double>(state >> 11) * 0x1p-53);
  }
  return values;
}

bool is_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Encodes and decodes on every instruction set, and compares with the definition bit by bit.
void check_codec(int32_t dtype, const std::vector<double>& values, double divisor = 1.0) {
  Elements in = elements_of(dtype, values);
  const uint64_t n = values.size();
  const MinmaxUint8 wanted = encode(singles_of(in, static_cast<float>(divisor)));
  const std::vector<float> decoded = decode(wanted);
  for (auto& [isa, cpu] : all_isas()) {
    SCOPED_TRACE(isa + ", type " + std::to_string(dtype) + ", " + std::to_string(n) + " elements");
    Chunk chunk(n);
    ASSERT_EQ(cpu->codec().encode(nullptr, chunk.data(), in.data(), dtype, n, 1, divisor, &kStream), COHORT_OK);
    EXPECT_TRUE(chunk.is_intact());
    const MinmaxUint8 got = chunk.content();
    ASSERT_TRUE(is_same_bits({got.min, got.max}, {wanted.min, wanted.max})) << got.min << " .. " << got.max;
    ASSERT_EQ(got.codes, wanted.codes);
    std::vector<float> out(n, 7.0f);
    ASSERT_EQ(cpu->codec().decode(nullptr, out.data(), COHORT_FLOAT32, chunk.data(), n, 1, &kStream), COHORT_OK);
    ASSERT_TRUE(is_same_bits(out, decoded));
  }
}

TEST(MinmaxUint8, HasTheBitsOfItsDefinitionOnEveryInstructionSet) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kChunkSizes) {
      check_codec(dtype, spread(n, -1.0, 1.0));
      check_codec(dtype, spread(n, 0.25, 3.0));
      check_codec(dtype, spread(n, -9.0, -2.0), 3.0);
      check_codec(dtype, spread(n, -1e-3, 1e-5), 7.0);
    }
  }
}

TEST(MinmaxUint8, HasThemForRangesFarFromZeroAndForTinyAndHugeOnes) {
  for (const auto& [from, to] : std::initializer_list<std::pair<double, double>>{{1000.0, 1000.001},
                                                                                 {-16777216.0, -16777000.0},
                                                                                 {1e-9, 3e-9},
                                                                                 {-1e-29, 1e-29},
                                                                                 {1e-30, 1.0000001e-30},
                                                                                 {-1e-38, 1e-38},
                                                                                 {-3.4e38, 3.4e38},
                                                                                 {5.0, 5.0},
                                                                                 {0.0, 0.0}}) {
    for (const uint64_t n : kChunkSizes) {
      check_codec(COHORT_FLOAT32, spread(n, from, to));
      check_codec(COHORT_FLOAT64, spread(n, from, to), 3.0);
    }
  }
}

TEST(MinmaxUint8, RoundsHalvesToEven) {
  std::vector<double> values;
  for (int i = 0; i <= 510; ++i) values.push_back(i / 2.0);
  check_codec(COHORT_FLOAT32, values);
}

TEST(MinmaxUint8, ErrsByHalfAStepAtMost) {
  for (const auto& [from, to] : std::initializer_list<std::pair<double, double>>{
           {-1.0, 1.0}, {0.0, 1e-9}, {-1e-20, 3e-20}, {10.0, 11.0}, {-1e30, 2e30}}) {
    const auto values = spread(5000, from, to);
    Elements in = elements_of(COHORT_FLOAT32, values);
    const std::vector<float> sent = singles_of(in), got = through_codec(sent);
    double magnitude = 0;
    for (const float value : sent) magnitude = std::max(magnitude, std::abs(double{value}));
    const double half_step = 0.5 * (to - from) / 255.0;
    for (size_t i = 0; i < sent.size(); ++i) {
      ASSERT_LE(std::abs(double{got[i]} - double{sent[i]}), half_step + 4e-7 * magnitude) << sent[i];
    }
  }
}

TEST(MinmaxUint8, KeepsZerosAndConstants) {
  check_codec(COHORT_FLOAT32, {0.0, -0.3, 0.0, 1.7, -0.0});
  const std::vector<float> kept = through_codec({0.0f, -0.3f, 0.0f, 1.7f, -0.0f});
  EXPECT_EQ(kept[0], 0.0f);
  EXPECT_EQ(kept[4], 0.0f);
  for (const float constant : {1.0f, -3.3e-12f, 7e20f}) {
    for (const float value : through_codec(std::vector<float>(9, constant))) {
      EXPECT_NEAR(value, constant, 3e-7 * std::abs(constant));
    }
  }
}

TEST(MinmaxUint8, ClampsCodesWhereTheOffsetIsLargeBesideTheRange) {
  const std::vector<double> values = spread(3000, 123456.0, 123456.2);
  check_codec(COHORT_FLOAT32, values);
  Elements in = elements_of(COHORT_FLOAT32, values);
  for (const float value : through_codec(singles_of(in))) EXPECT_NEAR(value, 123456.1f, 0.15);
}

TEST(MinmaxUint8, DecodesToNanEverywhereWhereAnElementIsNotFinite) {
  for (const int32_t dtype : kFloats) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (const uint64_t n : kChunkSizes) {
        for (const uint64_t at : {uint64_t{0}, n / 2, n - 1}) {
          auto values = spread(n, -1.0, 1.0);
          values[at] = double{bad};
          check_codec(dtype, values);
        }
      }
    }
  }
  check_codec(COHORT_FLOAT64, {1.0, 1e39});         // too large for float32
  check_codec(COHORT_FLOAT32, {1.0, 3e38}, 0.125);  // after the division
}

TEST(MinmaxUint8, OfNoElementsIsAHeaderOfZeros) {
  for (auto& [isa, cpu] : all_isas()) {
    Chunk chunk(0);
    float nothing = 0;
    ASSERT_EQ(cpu->codec().encode(nullptr, chunk.data(), &nothing, COHORT_FLOAT32, 0, 1, 1.0, &kStream), COHORT_OK);
    EXPECT_EQ(chunk.content(), MinmaxUint8{}) << isa;
    EXPECT_TRUE(chunk.is_intact());
  }
}

/// Some chunks of one size as a batch has them, with a guard behind the last.
class Batch {
 public:
  Batch(uint64_t chunk_numel, uint64_t num_chunks)
      : nbytes_(num_chunks * COHORT_MINMAX_UINT8_NBYTES(chunk_numel)), memory_(nbytes_ / 4 + 1, kGuard) {}
  void* data() { return memory_.data(); }
  bool is_intact() const { return memory_.back() == kGuard; }
  bool operator==(const Batch& other) const { return memory_ == other.memory_; }
  void put(uint64_t index, Chunk& chunk, uint64_t numel) {
    const uint64_t each = COHORT_MINMAX_UINT8_NBYTES(numel);
    std::memcpy(reinterpret_cast<std::byte*>(memory_.data()) + index * each, chunk.data(), each);
  }

 private:
  static constexpr uint32_t kGuard = 0xa5a5a5a5u;
  uint64_t nbytes_;
  std::vector<uint32_t> memory_;
};

TEST(MinmaxUint8, EncodesAndDecodesABatchAsItsChunks) {
  for (const uint64_t numel : {uint64_t{1}, uint64_t{7}, uint64_t{64}, uint64_t{2049}}) {
    constexpr uint64_t kChunks = 3;
    std::vector<double> values = spread(kChunks * numel, -2.0, 3.0);
    values[numel] = double{kNan};  // of the second chunk alone
    for (const int32_t dtype : kFloats) {
      Elements in = elements_of(dtype, values);
      for (auto& [isa, cpu] : all_isas()) {
        SCOPED_TRACE(isa + ", type " + std::to_string(dtype) + ", chunks of " + std::to_string(numel));
        Batch batch(numel, kChunks), wanted(numel, kChunks);
        std::vector<float> decoded;
        for (uint64_t c = 0; c < kChunks; ++c) {
          Chunk chunk(numel);
          std::byte* const first = in.data() + c * numel * size_of(dtype);
          ASSERT_EQ(cpu->codec().encode(nullptr, chunk.data(), first, dtype, numel, 1, 2.0, &kStream), COHORT_OK);
          wanted.put(c, chunk, numel);
          for (const float value : decode(chunk.content())) decoded.push_back(value);
        }
        ASSERT_EQ(cpu->codec().encode(nullptr, batch.data(), in.data(), dtype, numel, kChunks, 2.0, &kStream),
                  COHORT_OK);
        EXPECT_TRUE(batch == wanted) << "or bytes behind codes were written";
        Elements out = mixed(dtype, kChunks * numel, 3);
        ASSERT_EQ(cpu->codec().decode(nullptr, out.data(), dtype, batch.data(), numel, kChunks, &kStream), COHORT_OK);
        for (uint64_t i = 0; i < out.size(); ++i) {
          Elements element = elements_of(dtype, {double{decoded[i]}});
          ASSERT_TRUE(out[i] == element[0] || (std::isnan(out[i]) && std::isnan(element[0]))) << i;
        }
      }
    }
  }
}

TEST(MinmaxUint8, AddsUpChunksLeftToRightRoundedOnce) {
  for (const uint64_t numel : {uint64_t{1}, uint64_t{333}, uint64_t{2048}, uint64_t{5000}}) {
    for (const uint64_t num_chunks : {uint64_t{1}, uint64_t{2}, uint64_t{5}}) {
      std::vector<std::vector<float>> decoded;
      for (auto& [isa, cpu] : all_isas()) {
        Batch batch(numel, num_chunks);
        decoded.clear();
        for (uint64_t c = 0; c < num_chunks; ++c) {
          Elements in = elements_of(COHORT_FLOAT32, spread(numel, -2.0, 3.0, c + 1));
          Chunk chunk(numel);
          cpu->codec().encode(nullptr, chunk.data(), in.data(), COHORT_FLOAT32, numel, 1, 1.0, &kStream);
          batch.put(c, chunk, numel);
          decoded.push_back(through_codec(singles_of(in)));
        }
        for (const int32_t dtype : kFloats) {
          SCOPED_TRACE(isa + ", type " + std::to_string(dtype) + ", " + std::to_string(num_chunks) + " chunks of " +
                       std::to_string(numel));
          const auto math = [dtype](double value) {
            return dtype == COHORT_FLOAT64 ? value : double{static_cast<float>(value)};
          };
          Elements start = finite(dtype, numel, 5), in_place = finite(dtype, numel, 5), out = mixed(dtype, numel, 3),
                   sum = mixed(dtype, numel, 4);
          auto& k = cpu->codec();
          ASSERT_EQ(k.decode_add(nullptr, out.data(), start.data(), dtype, batch.data(), numel, num_chunks, &kStream),
                    COHORT_OK);
          k.decode_add(nullptr, in_place.data(), in_place.data(), dtype, batch.data(), numel, num_chunks, &kStream);
          k.decode_add(nullptr, sum.data(), nullptr, dtype, batch.data(), numel, num_chunks, &kStream);
          for (uint64_t i = 0; i < numel; ++i) {
            double of_all = start[i], of_chunks = double{decoded[0][i]};
            for (uint64_t c = 0; c < num_chunks; ++c) of_all = math(of_all + double{decoded[c][i]});
            for (uint64_t c = 1; c < num_chunks; ++c) of_chunks = math(of_chunks + double{decoded[c][i]});
            Elements wanted = elements_of(dtype, {of_all, of_chunks});
            ASSERT_EQ(out[i], wanted[0]) << i;
            ASSERT_EQ(in_place[i], wanted[0]) << i;
            ASSERT_EQ(sum[i], wanted[1]) << i;
          }
        }
      }
    }
  }
}

TEST(MinmaxUint8, RefusesOtherTypesAndDivisorsThatAreNotPositive) {
  Cpu cpu;
  ASSERT_EQ(cpu.create("auto"), COHORT_OK);
  const auto& k = cpu.codec();
  Chunk chunk(4);
  int64_t values[4] = {};
  EXPECT_EQ(k.encode(nullptr, chunk.data(), values, COHORT_INT64, 4, 1, 1.0, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.decode(nullptr, values, COHORT_UINT8, chunk.data(), 4, 1, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.decode_add(nullptr, values, values, 99, chunk.data(), 4, 1, &kStream), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(k.decode_add(nullptr, values, nullptr, COHORT_FLOAT32, chunk.data(), 4, 0, &kStream),
            COHORT_INVALID_ARGUMENT);
  for (const double divisor : {0.0, -1.0, double{kNan}}) {
    EXPECT_EQ(k.encode(nullptr, chunk.data(), values, COHORT_FLOAT32, 4, 1, divisor, &kStream),
              COHORT_INVALID_ARGUMENT);
  }
}

}  // namespace
