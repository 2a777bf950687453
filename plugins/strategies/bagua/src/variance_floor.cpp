#include "variance_floor.hpp"

#include <algorithm>
#include <utility>

#include <cohort/sdk/portable/elements.hpp>

#include "algorithm.hpp"

namespace cohort::bagua {
namespace {

constexpr const char* kKey = "raised";
constexpr uint64_t kReadAtOnce = 1 << 16;  // elements

/// Calls `take(value)` for each element, in order, wherever the memory is.
template <class Take>
void for_elements(const sdk::Host& host, const sdk::Elements& elements, Take take) {
  const uint64_t size = sdk::size_of(elements.dtype);
  std::vector<double> copy((std::min(kReadAtOnce, elements.count) * size + sizeof(double) - 1) / sizeof(double));
  for (uint64_t begin = 0; begin < elements.count; begin += kReadAtOnce) {
    const uint64_t count = std::min(kReadAtOnce, elements.count - begin);
    host.read(copy.data(), static_cast<const unsigned char*>(elements.data) + begin * size, count * size,
              elements.stream);
    sdk::portable::for_floating(elements.dtype, [&](auto tag) {
      const auto* const values = reinterpret_cast<const typename decltype(tag)::Type*>(copy.data());
      for (uint64_t i = 0; i < count; ++i) take(static_cast<double>(sdk::portable::load(values[i])));
    });
  }
}

}  // namespace

void VarianceFloor::raise(const sdk::Host& host, const cohort_bucket& bucket, const sdk::Elements& squares) {
  if (part_ == 0) return;
  is_raised_.resize(host.num_params(), 0);
  for (uint64_t i = 0; i < bucket.num_parts; ++i) {
    const cohort_bucket_part& part = bucket.parts[i];
    if (std::exchange(is_raised_[part.id], uint8_t{1})) continue;
    raise(host, part_of(squares, part));
  }
}

// If the mean is 0, nothing is known of any element. Moments that are not finite stay so.
void VarianceFloor::raise(const sdk::Host& host, const sdk::Elements& square) {
  double sum = 0;
  for_elements(host, square, [&](double value) { sum += value; });
  const double least = part_ * (sum / static_cast<double>(square.count));
  if (!(least > 0)) return;
  elements_ += square.count;
  for_elements(host, square, [&](double value) { low_ += value < least ? 1 : 0; });
  const sdk::DeviceBuffer floor =
      host.alloc(square.stream.device_type, square.stream.device_index, square.count * sdk::size_of(square.dtype));
  host.core_kernels(square.stream.device_type).fill({floor.data(), square.count, square.dtype, square.stream}, least);
  axpby(host, square, {floor.data(), square.count, square.dtype, square.stream}, 1, 1);
}

void VarianceFloor::report(const sdk::Host& host) {
  if (elements_ == 0) return;
  host.log().info("bagua:qadam keeps the second moments from now on; ", low_, " of ", elements_, " are below ", part_,
                  " of the mean of their parameter's and are raised to it");
  elements_ = low_ = 0;
}

void VarianceFloor::save(const sdk::Host& host) const {
  if (!is_raised_.empty()) host.save(kKey, is_raised_.data(), is_raised_.size(), COHORT_ARCHIVE_SHARED);
}

void VarianceFloor::load(const sdk::Host& host) {
  is_raised_.assign(host.num_params(), 0);
  host.load(kKey, is_raised_.data(), is_raised_.size());
}

}  // namespace cohort::bagua
