#include "codec.hpp"

#include <cmath>
#include <cstring>

namespace cohort::bagua {

bool are_finite(const void* chunks, uint64_t nbytes, int num_chunks) {
  const auto* chunk = static_cast<const unsigned char*>(chunks);
  for (int i = 0; i < num_chunks; ++i, chunk += nbytes) {
    float min = 0;
    std::memcpy(&min, chunk, sizeof min);
    if (std::isnan(min)) return false;
  }
  return true;
}

}  // namespace cohort::bagua
