// Cutting a batch into pieces for replicas, and putting what they return together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <cohort/value.hpp>

namespace cohort {

/// Samples of each piece: as many pieces as there are replicas, or samples where these are fewer; sizes differ by at
/// most one, larger ones first (7 on 3: 3, 2, 2).
std::vector<int64_t> piece_sizes(int64_t samples, size_t replicas);

/// Cuts every tensor of the batch along dimension 0, through any nesting, without copying. Tensors without dimensions
/// go to every piece. Throws UserError for a tensor whose dimension 0 is not the sum of `sizes`.
std::vector<Batch> scatter(const Batch& batch, std::span<const int64_t> sizes);

/// A batch in pieces.
struct BatchPieces {
  std::vector<int64_t> sizes;
  std::vector<Batch> batches;
  double share(size_t piece) const;  ///< of the batch's samples
};
/// Returns the batch in as many pieces, or in one for each sample if these are fewer.
BatchPieces cut_into(const Batch& batch, size_t count);
/// Returns the sum, from left to right, on the device of the first.
at::Tensor sum_of(const std::vector<at::Tensor>& losses);

/// The outputs as a list, in order, for a hook of the whole batch. A tensor that requires a gradient is replaced by a
/// leaf, so that the hook's backward ends there; `tensors` and `leaves` gives both, by output. `there`, if any, gives
/// each tensor without its graph on the hook's device. Throws UserError where outputs are built differently.
struct Gathered {
  Output list;
  std::vector<std::vector<at::Tensor>> tensors, leaves;
};
Gathered gather(std::span<const Output> outputs, const std::function<at::Tensor(const at::Tensor&)>& there = {});
/// Returns the tensors of an output with the gradients of their leaves, without those that have none.
std::vector<std::pair<at::Tensor, at::Tensor>> take_gradients(const Gathered& gathered, size_t output);

}  // namespace cohort
