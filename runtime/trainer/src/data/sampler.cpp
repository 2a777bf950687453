#include <cohort/sampler.hpp>

#include <numeric>
#include <random>
#include <utility>

#include <cohort/mixed.hpp>

namespace cohort {
namespace {

// Uniform in 0 .. bound-1. Written out because the standard leaves its distributions to the library.
uint64_t below(uint64_t bound, std::mt19937_64& generator) {
  const uint64_t rejected = (0 - bound) % bound;
  uint64_t draw = generator();
  while (draw < rejected) draw = generator();
  return draw % bound;
}

std::vector<int64_t> every_world_th(const std::vector<int64_t>& list, const Shard& shard, size_t begin = 0) {
  std::vector<int64_t> mine;
  const auto world = static_cast<size_t>(shard.world_size);
  mine.reserve(list.size() / world + 1);
  for (auto i = begin + static_cast<size_t>(shard.rank); i < list.size(); i += world) mine.push_back(list[i]);
  return mine;
}

std::vector<int64_t> ascending(int64_t size) {
  std::vector<int64_t> list(static_cast<size_t>(size));
  std::iota(list.begin(), list.end(), int64_t{0});
  return list;
}

}  // namespace

uint64_t seed_of_fit(uint64_t seed, int64_t fit) {
  return fit == 1 ? seed : mixed(mixed(seed) + static_cast<uint64_t>(fit));
}

std::vector<int64_t> permutation(int64_t size, uint64_t seed, int64_t epoch) {
  auto list = ascending(size);
  std::mt19937_64 generator(mixed(mixed(seed) ^ static_cast<uint64_t>(epoch)));
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i, generator)]);
  return list;
}

std::vector<int64_t> training_indices(int64_t size, const Shard& shard, bool shuffle, int64_t begin) {
  if (begin >= size) return {};
  auto list = shuffle ? permutation(size, shard.seed, shard.epoch) : ascending(size);
  const auto world = static_cast<size_t>(shard.world_size), first = static_cast<size_t>(begin);
  const size_t left = list.size() - first;
  const size_t padded = first + (left + world - 1) / world * world;
  list.reserve(padded);
  while (list.size() < padded) list.push_back(list[list.size() - left]);
  return every_world_th(list, shard, first);
}

std::vector<int64_t> evaluation_indices(int64_t size, const Shard& shard) {
  return every_world_th(ascending(size), shard);
}

}  // namespace cohort
