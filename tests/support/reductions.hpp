// Reductions to try, their inputs and their results, computed element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <cohort/api/collective.h>

namespace cohort::test {

using Bytes = std::vector<std::byte>;

struct Reduction {
  int32_t dtype;
  int32_t reduce;
  uint64_t count;
};

std::string text_of(const Reduction& r);

/// Every data type with every operation that is possible on it.
std::vector<Reduction> all_reductions(std::initializer_list<uint64_t> counts);

/// The arguments of the operation; the caller keeps input and output until it is done.
cohort_op_args op_of(const Reduction& r, const void* input, void* output);

/// What a rank gives: small integers, whose results over up to 8 ranks are exact in every type and every order.
Bytes input_of(const Reduction& r, int rank);
Bytes result_of(const Reduction& r, int size);

/// Floating numbers of all magnitudes, so that the order of a sum shows in its bits.
Bytes random_elements(int32_t dtype, uint64_t count, int seed);
/// Left to right over the ranks, in float32 for 16-bit types and in the type itself for others; `mean` divides by the
/// number of ranks; rounded to the type once.
Bytes sum_in_rank_order(int32_t dtype, const std::vector<Bytes>& inputs, bool is_mean);

/// Throws std::runtime_error with `what` and the first element that differs.
void require_equal(const std::byte* got, const std::byte* wanted, int32_t dtype, uint64_t count,
                   const std::string& what);

}  // namespace cohort::test
