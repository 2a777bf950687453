#include "elements.hpp"

#include <algorithm>
#include <cstring>

#include <cohort/sdk/half.hpp>

namespace cohort::test {

namespace {

template <class T>
T load(const void* data, uint64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* data, uint64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

double get_element(const void* data, int32_t dtype, uint64_t index) {
  switch (dtype) {
    case COHORT_FLOAT32:
      return static_cast<double>(load<float>(data, index));
    case COHORT_FLOAT64:
      return load<double>(data, index);
    case COHORT_FLOAT16:
      return static_cast<double>(sdk::to_float(load<sdk::Half>(data, index)));
    case COHORT_BFLOAT16:
      return static_cast<double>(sdk::to_float(load<sdk::BFloat16>(data, index)));
    case COHORT_INT8:
      return load<int8_t>(data, index);
    case COHORT_INT16:
      return load<int16_t>(data, index);
    case COHORT_INT32:
      return load<int32_t>(data, index);
    case COHORT_INT64:
      return static_cast<double>(load<int64_t>(data, index));
    case COHORT_UINT64:
      return static_cast<double>(load<uint64_t>(data, index));
    default:
      return load<uint8_t>(data, index);
  }
}

void put_element(void* data, int32_t dtype, uint64_t index, double value) {
  const auto integer = static_cast<int64_t>(value);
  switch (dtype) {
    case COHORT_FLOAT32:
      return store(data, index, static_cast<float>(value));
    case COHORT_FLOAT64:
      return store(data, index, value);
    case COHORT_FLOAT16:
      return store(data, index, sdk::to_half(sdk::to_float_for_narrowing(value)));
    case COHORT_BFLOAT16:
      return store(data, index, sdk::to_bfloat16(sdk::to_float_for_narrowing(value)));
    case COHORT_INT8:
      return store(data, index, static_cast<int8_t>(integer));
    case COHORT_INT16:
      return store(data, index, static_cast<int16_t>(integer));
    case COHORT_INT32:
      return store(data, index, static_cast<int32_t>(integer));
    case COHORT_INT64:
      return store(data, index, integer);
    case COHORT_UINT64:
      return store(data, index, static_cast<uint64_t>(integer));
    case COHORT_BOOL:
      return store(data, index, static_cast<uint8_t>(integer != 0));
    default:
      return store(data, index, static_cast<uint8_t>(integer));
  }
}

Guarded::Guarded(int32_t dtype, uint64_t count) : bytes_(2 * kGuard + count * sdk::size_of(dtype), std::byte{0xa5}) {}

bool Guarded::is_intact() const {
  const auto is_guard = [](std::byte byte) { return byte == std::byte{0xa5}; };
  return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_guard) &&
         std::all_of(bytes_.end() - kGuard, bytes_.end(), is_guard);
}

}  // namespace cohort::test
