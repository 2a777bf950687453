// Collectives of the user's own tensors, in the order of the calling thread's stream.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include <cohort/host/connected_rank.hpp>

namespace cohort {

/// Returns the reduction over the ranks (COHORT_REDUCE_...) in a new tensor. Collective. Throws UserError for a type
/// that cannot be reduced.
at::Tensor all_reduce(host::ConnectedRank& rank, const at::Tensor& tensor, int32_t operation);
/// Returns [world_size, ...tensor's shape]: every rank's tensor, in rank order. Gradients flow back, until when the
/// rank has to live. Collective.
at::Tensor all_gather(host::ConnectedRank& rank, const at::Tensor& tensor);

}  // namespace cohort
