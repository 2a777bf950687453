#include "buffer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

namespace cohort::conformance {
namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::align_val_t kAlignment{64};

std::byte* allocate(uint64_t nbytes) {
  Device* const device = subject().device();
  void* const memory = device ? device->alloc(nbytes, *subject().stream()) : ::operator new(nbytes, kAlignment);
  return static_cast<std::byte*>(memory);
}

void release(std::byte* memory) {
  if (Device* const device = subject().device()) return device->release(memory, *subject().stream());
  ::operator delete(memory, kAlignment);
}

void write(std::byte* memory, const std::vector<std::byte>& bytes) {
  Device* const device = subject().device();
  if (!device) std::copy(bytes.begin(), bytes.end(), memory);
  if (device) device->copy(memory, bytes.data(), bytes.size(), *subject().stream());
}

std::vector<std::byte> read(const std::byte* memory, uint64_t nbytes) {
  Device* const device = subject().device();
  if (!device) return {memory, memory + nbytes};
  std::vector<std::byte> bytes(nbytes);
  device->copy(bytes.data(), memory, nbytes, *subject().stream());
  return bytes;
}

std::vector<double> rounded(int32_t dtype, std::vector<double> values) {
  std::byte element[8];
  for (double& value : values) {
    test::put_element(element, dtype, 0, value);
    value = test::get_element(element, dtype, 0);
  }
  return values;
}

}  // namespace

Buffer::Buffer(uint64_t nbytes, uint64_t shift) : nbytes_(nbytes), shift_(shift), memory_(allocate(whole())) {
  write(memory_, std::vector(whole(), kUntouched));
}

Buffer::~Buffer() {
  release(memory_);
}

void Buffer::put(const std::vector<std::byte>& bytes) {
  write(data(), bytes);
}

std::vector<std::byte> Buffer::get() const {
  const std::vector<std::byte> all = read(memory_, whole());
  const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
  const auto first = all.begin() + (data() - memory_), end = first + static_cast<std::ptrdiff_t>(nbytes_);
  EXPECT_TRUE(std::all_of(all.begin(), first, is_untouched)) << "bytes before the output were written";
  EXPECT_TRUE(std::all_of(end, all.end(), is_untouched)) << "bytes behind the output were written";
  return {first, end};
}

Tensor::Tensor(int32_t dtype, const std::vector<double>& values) : Tensor(dtype, values.size()) {
  std::vector<std::byte> bytes(nbytes());
  for (uint64_t i = 0; i < n_; ++i) test::put_element(bytes.data(), dtype, i, values[i]);
  buffer_.put(bytes);
}

std::vector<double> Tensor::values() const {
  const std::vector<std::byte> all = bytes();
  std::vector<double> values;
  for (uint64_t i = 0; i < n_; ++i) values.push_back(test::get_element(all.data(), dtype_, i));
  return values;
}

std::vector<double> mixed(int32_t dtype, uint64_t n, uint64_t seed) {
  std::vector<double> values;
  uint64_t state = seed * 2654435761u + 1;
  for (uint64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double mantissa = static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
    values.push_back(std::ldexp(mantissa, static_cast<int>(state % 41) - 24));
    if (i % 29 == 5) values.back() = i % 2 == 0 ? 0.0 : -0.0;
    if (i % 31 == 7) values.back() = (i % 2 == 0 ? 1 : -1) * std::numeric_limits<double>::infinity();
    if (i % 37 == 9) values.back() = std::numeric_limits<double>::quiet_NaN();
  }
  return rounded(dtype, std::move(values));
}

std::vector<double> finite(int32_t dtype, uint64_t n, uint64_t seed) {
  std::vector<double> values;
  for (uint64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((i * 7919 + seed * 31) % 2001) / 64.0 - 15.0);
  return rounded(dtype, std::move(values));
}

double in_math(int32_t dtype, double value) {
  return dtype == COHORT_FLOAT64 ? value : static_cast<double>(static_cast<float>(value));
}

void expect_elements(const Tensor& got, int32_t dtype, const std::function<double(uint64_t)>& wanted) {
  const std::vector<std::byte> bytes = got.bytes();
  const uint64_t size = sdk::size_of(dtype);
  for (uint64_t i = 0; i < got.size(); ++i) {
    std::byte element[8];
    test::put_element(element, dtype, 0, wanted(i));
    if (std::memcmp(element, bytes.data() + i * size, size) == 0) continue;
    const double is = test::get_element(bytes.data(), dtype, i), should = test::get_element(element, dtype, 0);
    if (std::isnan(is) && std::isnan(should)) continue;
    FAIL() << "element " << i << " is " << is << ", not " << should;
  }
}

void for_types_and_sizes(const std::function<void(int32_t, uint64_t)>& body) {
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      SCOPED_TRACE(std::to_string(n) + " elements of " + sdk::name_of(dtype));
      body(dtype, n);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace cohort::conformance
