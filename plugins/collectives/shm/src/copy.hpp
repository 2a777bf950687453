// Copies that may have nothing to do.
#pragma once

#include <cstdint>
#include <cstring>

namespace cohort::shm {

inline void copy_bytes(void* to, const void* from, uint64_t nbytes) {
  if (nbytes != 0 && to != from) std::memcpy(to, from, nbytes);
}

}  // namespace cohort::shm
