// Unrelated numbers from neighbouring ones, for seeds.
#pragma once

#include <cstdint>

namespace cohort {

/// Returns what splitmix64 makes of x: neighbouring seeds and epochs give unrelated generators.
inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace cohort
