#include "data/batch_random.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <cohort/data.hpp>

#include <cohort/mixed.hpp>

namespace cohort {
namespace {

// Belongs to the thread, because a dataset is asked from several at once and may call functions that know nothing of
// it.
thread_local const BatchRandom* batch_of_thread = nullptr;

}  // namespace

uint64_t BatchSeeds::seed_of(int64_t batch) const {
  uint64_t seed = mixed(shard.seed) + (is_training ? 0 : 1);
  for (const int64_t part : {shard.epoch, int64_t{shard.rank}, batch}) seed = mixed(seed) + static_cast<uint64_t>(part);
  return mixed(seed);
}

BatchRandom::BatchRandom(uint64_t seed) : seed_(seed) {
  batch_of_thread = this;
}

BatchRandom::~BatchRandom() {
  batch_of_thread = nullptr;
}

at::Generator BatchRandom::generator() const {
  if (!generator_) generator_ = at::detail::createCPUGenerator(seed_);
  return *generator_;
}

at::Generator data_generator() {
  return batch_of_thread ? batch_of_thread->generator() : at::detail::getDefaultCPUGenerator();
}

}  // namespace cohort
