// Hashes of a sample of a module's weights, cheap enough to compare them between ranks at every checkpoint.
//
// A parameter of up to 1 KiB is hashed whole. Of a larger one the first and the last 64 bytes are hashed, and 64 of
// every 16 KiB, whose position moves with every step. That finds whatever changes a parameter as a whole, such as a
// different optimizer step. A change of a few elements of a large parameter may be missed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/rank.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

using NamedHashes = std::vector<std::pair<std::string, uint64_t>>;

/// Returns a hash for each parameter, in registration order. `step` selects the sampled bytes and has to be the same on
/// all ranks.
NamedHashes weights_sample(const torch::nn::Module& module, uint64_t step);
/// Returns one hash over all parameters.
uint64_t hash_of(const NamedHashes& hashes);

/// Returns the hashes without the names, as ranks send them to each other.
std::string to_text(const NamedHashes& hashes);
/// Returns the difference between the texts of all ranks: "rank 1 from rank 0 in 3 of 8 parameters, first in
/// 'fc1.weight'". It completes the sentence "the ranks have different weights: ".
std::string first_difference(const NamedHashes& own, std::span<const std::string> texts);

/// Throws TrainingFailed, which names ranks and parameters, if the samples after this step differ. Collective.
void check_equal_weights(host::Rank& rank, const torch::nn::Module& module, uint64_t step);

}  // namespace cohort
