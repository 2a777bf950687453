// What a rank calls, as the others see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cohort::shm {

enum class OpKind : uint8_t {
  kNone,
  kConnect,
  kSplit,
  kAlloc,
  kExchange,
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier
};

/// A place in memory from `alloc`; region 0 is none.
struct Place {
  uint64_t region;
  uint64_t offset;
};

/// Plain bytes without gaps. What ranks must agree on comes first, then each rank's own memory.
struct Call {
  OpKind kind{};
  uint8_t dtype = 0;
  uint8_t reduce = 0;
  uint8_t reserved0 = 0;
  int32_t root = 0;
  uint64_t count = 0;   // elements in all; bytes of alloc
  uint64_t pieces = 0;  // a hash of the counts by rank, where an operation has them
  Place input{};
  Place output{};
};
static_assert(sizeof(Call) == 56 && offsetof(Call, input) == 24);

inline bool agree(const Call& a, const Call& b) {
  return std::memcmp(&a, &b, offsetof(Call, input)) == 0;
}

}  // namespace cohort::shm
