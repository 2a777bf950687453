// A sample of a module's weights, small enough to compare the ranks' at every checkpoint.
//
// Of each parameter up to 1 KiB whole, else the first and the last cache line and one of each 16 KiB, another one after
// each step. What changes a parameter as a whole, or moves an optimizer's step, is found; a change of few elements of a
// large one may be missed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace cohort {

using NamedHashes = std::vector<std::pair<std::string, uint64_t>>;

/// A number for each parameter, in registration order. `step` says which lines: the same on all ranks.
NamedHashes weights_sample(const torch::nn::Module& module, uint64_t step);
/// One number for all.
uint64_t hash_of(const NamedHashes& hashes);

/// The numbers without the names, as ranks send them to each other.
std::string to_text(const NamedHashes& hashes);
/// "those of rank 1 differ from rank 0's in 3 of 8 parameters, first in 'fc1.weight'", from the texts of all ranks.
std::string first_difference(const NamedHashes& own, std::span<const std::string> texts);

}  // namespace cohort
