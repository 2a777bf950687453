// Elements of any data type as doubles, for references that are written once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cohort/sdk/dtype.hpp>

namespace cohort::test {

/// Every data type of the ABI.
inline constexpr int32_t kAllDtypes[] = {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16,
                                         COHORT_INT8,    COHORT_INT16,   COHORT_INT32,   COHORT_INT64,
                                         COHORT_UINT8,   COHORT_UINT64,  COHORT_BOOL};

double get_element(const void* data, int32_t dtype, uint64_t index);
/// Rounds to nearest even; integers take the value's bits, so that negative ones wrap around.
void put_element(void* data, int32_t dtype, uint64_t index, double value);

/// Memory for elements with bytes before and after that must not change.
class Guarded {
 public:
  Guarded(int32_t dtype, uint64_t count);

  std::byte* data() { return bytes_.data() + kGuard; }
  bool is_intact() const;

 private:
  static constexpr std::size_t kGuard = 24;  // elements are aligned to 8 bytes, not to a cache line
  std::vector<std::byte> bytes_;
};

}  // namespace cohort::test
