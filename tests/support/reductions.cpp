#include "reductions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include <cohort/sdk/dtype.hpp>

#include "elements.hpp"

namespace cohort::test {
namespace {

using sdk::size_of;

bool is_signed(int32_t dtype) {
  return dtype != COHORT_UINT8 && dtype != COHORT_UINT64 && dtype != COHORT_BOOL;
}

double input_value(const Reduction& c, int rank, uint64_t i) {
  const auto r = static_cast<uint64_t>(rank);
  if (c.dtype == COHORT_BOOL) return static_cast<double>((i >> (r % 3)) & 1);
  if (c.reduce == COHORT_REDUCE_PRODUCT) {
    return (rank < 3 ? 1.0 + static_cast<double>(i % 3) : 1.0) * (is_signed(c.dtype) && (i + r) % 2 ? -1.0 : 1.0);
  }
  if (c.reduce == COHORT_REDUCE_BIT_OR) return static_cast<double>(uint64_t{1} << ((i + r) % 7));
  return static_cast<double>((i * 7 + r * 3) % 16) - (is_signed(c.dtype) ? 7.0 : 0.0);
}

double combined(int32_t reduce, double left, double right) {
  switch (reduce) {
    case COHORT_REDUCE_MIN:
      return std::min(left, right);
    case COHORT_REDUCE_MAX:
      return std::max(left, right);
    case COHORT_REDUCE_PRODUCT:
      return left * right;
    case COHORT_REDUCE_BIT_OR:
      return static_cast<double>(static_cast<uint64_t>(left) | static_cast<uint64_t>(right));
    default:
      return left + right;
  }
}

double result_value(const Reduction& c, int size, uint64_t i) {
  double result = input_value(c, 0, i);
  for (int rank = 1; rank < size; ++rank) result = combined(c.reduce, result, input_value(c, rank, i));
  return c.reduce == COHORT_REDUCE_MEAN ? result / size : result;
}

constexpr uint64_t kPeriod = 336;  // elements after which both values repeat

template <class Value>
Bytes repeated(const Reduction& c, Value value) {
  Bytes bytes(c.count * size_of(c.dtype));
  for (uint64_t i = 0; i < std::min(c.count, kPeriod); ++i) put_element(bytes.data(), c.dtype, i, value(i));
  const uint64_t period = kPeriod * size_of(c.dtype);
  for (uint64_t done = period; done < bytes.size(); done += period) {
    std::memcpy(bytes.data() + done, bytes.data(), std::min<uint64_t>(period, bytes.size() - done));
  }
  return bytes;
}

}  // namespace

std::string text_of(const Reduction& r) {
  return std::string(sdk::name_of(r.dtype)) + " op " + std::to_string(r.reduce) + " x " + std::to_string(r.count);
}

std::vector<Reduction> all_reductions(std::initializer_list<uint64_t> counts) {
  std::vector<Reduction> all;
  for (const int32_t dtype : kAllDtypes) {
    for (int32_t reduce = COHORT_REDUCE_SUM; reduce <= COHORT_REDUCE_BIT_OR; ++reduce) {
      if (!sdk::can_reduce(dtype, reduce)) continue;
      for (const uint64_t count : counts) all.push_back({dtype, reduce, count});
    }
  }
  return all;
}

cohort_op_args op_of(const Reduction& r, const void* input, void* output) {
  cohort_op_args args{};
  args.dtype = r.dtype;
  args.reduce = r.reduce;
  args.count = r.count;
  args.input = input;
  args.output = output;
  return args;
}

Bytes input_of(const Reduction& r, int rank) {
  return repeated(r, [&](uint64_t i) { return input_value(r, rank, i); });
}

Bytes result_of(const Reduction& r, int size) {
  return repeated(r, [&](uint64_t i) { return result_value(r, size, i); });
}

Bytes random_elements(int32_t dtype, uint64_t count, int seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  Bytes bytes(count * size_of(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    const double mantissa = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    put_element(bytes.data(), dtype, i, std::ldexp(mantissa, static_cast<int>(random() % 20) - 10));
  }
  return bytes;
}

Bytes sum_in_rank_order(int32_t dtype, const std::vector<Bytes>& inputs, bool is_mean) {
  Bytes result(inputs[0].size());
  const auto in_type = [&](double value) {
    return dtype == COHORT_FLOAT64 ? value : static_cast<double>(static_cast<float>(value));
  };
  for (uint64_t i = 0; i < result.size() / size_of(dtype); ++i) {
    double sum = get_element(inputs[0].data(), dtype, i);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum = in_type(sum + get_element(inputs[rank].data(), dtype, i));
    }
    put_element(result.data(), dtype, i, is_mean ? in_type(sum / static_cast<double>(inputs.size())) : sum);
  }
  return result;
}

void require_equal(const std::byte* got, const std::byte* wanted, int32_t dtype, uint64_t count,
                   const std::string& what) {
  const uint64_t nbytes = count * size_of(dtype);
  const std::byte* const difference = std::mismatch(got, got + nbytes, wanted).first;
  if (difference == got + nbytes) return;
  const auto index = static_cast<uint64_t>(difference - got) / size_of(dtype);
  throw std::runtime_error(what + ": element " + std::to_string(index) + " is " +
                           std::to_string(get_element(got, dtype, index)) + ", not " +
                           std::to_string(get_element(wanted, dtype, index)));
}

}  // namespace cohort::test
