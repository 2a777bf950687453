// Bytes that tell where they come from.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace cohort::conformance {

/// Nothing, one byte, odd, around buffers of wires, large.
inline const std::initializer_list<uint64_t> kSizes = {0, 1, 7, 4096, 70001, 1500007};

inline std::vector<uint8_t> pattern(uint64_t nbytes, int seed) {
  std::vector<uint8_t> bytes(nbytes);
  for (uint64_t i = 0; i < nbytes; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 31 + (i >> 8) * 7 + static_cast<uint64_t>(seed) * 101);
  }
  return bytes;
}

inline bool holds(const void* memory, const std::vector<uint8_t>& wanted) {
  return wanted.empty() || std::memcmp(memory, wanted.data(), wanted.size()) == 0;
}

}  // namespace cohort::conformance
