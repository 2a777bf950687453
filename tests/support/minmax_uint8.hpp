// Min-max-uint8 written from its definition, one element after the other: what tests compare kernels and strategies to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace cohort::test {

struct MinmaxUint8 {
  float min = 0, max = 0;
  std::vector<uint8_t> codes;

  bool operator==(const MinmaxUint8&) const = default;
};

struct MinmaxGrid {
  float scale, lower;

  MinmaxGrid(float min, float max) : scale(0), lower(0) {
    const double largest = std::max(std::abs(double{min}), std::abs(double{max}));
    if (largest < 1e-30) return;
    const double exact = 255.0 / (double{max} - double{min} + 1e-7 * largest);
    scale = static_cast<float>(std::min(exact, double{std::numeric_limits<float>::max()}));
    const float upper = std::rint(max * scale);
    lower = upper - 255.0f;
  }
};

inline MinmaxUint8 encode(const std::vector<float>& values) {
  MinmaxUint8 chunk;
  chunk.codes.resize(values.size());
  if (values.empty()) return chunk;
  chunk.min = std::numeric_limits<float>::infinity();
  chunk.max = -chunk.min;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      chunk.min = chunk.max = std::numeric_limits<float>::quiet_NaN();
      return chunk;
    }
    chunk.min = std::min(chunk.min, value);
    chunk.max = std::max(chunk.max, value);
  }
  if (chunk.min == 0) chunk.min = 0;  // not -0
  if (chunk.max == 0) chunk.max = 0;
  const MinmaxGrid grid(chunk.min, chunk.max);
  if (grid.scale == 0) return chunk;
  for (size_t i = 0; i < values.size(); ++i) {
    const float scaled = values[i] * grid.scale;
    const float code = std::rint(scaled) - grid.lower;
    chunk.codes[i] = static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, code)));
  }
  return chunk;
}

inline std::vector<float> decode(const MinmaxUint8& chunk) {
  const size_t n = chunk.codes.size();
  if (std::isnan(chunk.min)) return std::vector<float>(n, chunk.min);
  const MinmaxGrid grid(chunk.min, chunk.max);
  std::vector<float> values(n, 0.0f);
  if (grid.scale == 0) return values;
  for (size_t i = 0; i < n; ++i) values[i] = (static_cast<float>(chunk.codes[i]) + grid.lower) / grid.scale;
  return values;
}

/// What arrives of `values`.
inline std::vector<float> through_codec(const std::vector<float>& values) {
  return decode(encode(values));
}

}  // namespace cohort::test
