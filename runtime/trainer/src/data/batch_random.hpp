// Random numbers of one batch, which depend on nothing but its place in the training.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Generator.h>

#include <cohort/sampler.hpp>

namespace cohort {

/// Tells the batches of a rank's pass apart from those of all other passes.
struct BatchSeeds {
  Shard shard{};
  bool is_training = true;

  uint64_t seed_of(int64_t batch) const;
};

/// While it lives, data_generator() of this thread begins at the seed. They do not nest.
class BatchRandom {
 public:
  explicit BatchRandom(uint64_t seed);
  ~BatchRandom();
  BatchRandom(const BatchRandom&) = delete;
  BatchRandom& operator=(const BatchRandom&) = delete;

  at::Generator generator() const;

 private:
  uint64_t seed_;
  mutable std::optional<at::Generator> generator_;  // made at the first use: most data draws nothing
};

}  // namespace cohort
