// The StepDriver of connected ranks: the host's step engine, fed by autograd.
#pragma once

#include <memory>
#include <span>

#include <cohort/host/connected_rank.hpp>
#include <cohort/precision.hpp>
#include <cohort/step_driver.hpp>

namespace cohort {

/// Checks that all ranks have the same model, gives every rank rank 0's weights, and lays out the buckets. `replicas`
/// are the model and its clones; they, runtime and rank outlive the result. `unrounded`: see Runtime. Collective.
/// Throws UserError for optimizers that the strategy does not serve, and with a table where models differ.
std::unique_ptr<StepDriver> make_host_step_driver(Runtime& runtime, host::ConnectedRank& rank,
                                                  std::span<torch::nn::Module* const> replicas, Optimizers optimizers,
                                                  UnroundedWeights unrounded);

}  // namespace cohort
