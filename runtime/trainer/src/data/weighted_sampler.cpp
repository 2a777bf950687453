// Draws samples in proportion to their weights, from a tree of sums.
//
// A node holds the sum of its two children, which are never subtracted: a drawn sample's leaf becomes exactly 0, and so
// does a branch when all of its leaves are drawn.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <string>

#include <cohort/host/error.hpp>
#include <cohort/sampler.hpp>

#include <cohort/mixed.hpp>

namespace cohort {
namespace {

class WeightTree {
 public:
  explicit WeightTree(const std::vector<double>& weights) : leaves_(std::bit_ceil(weights.size())) {
    sums_.resize(2 * leaves_, 0.0);
    std::ranges::copy(weights, sums_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node >= 1; --node) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

  /// Returns the sample at this share of all weights, in [0, 1).
  int64_t at(double share) const {
    double rest = share * sums_[1];
    size_t node = 1;
    while (node < leaves_) {
      const double left = sums_[2 * node];
      const bool goes_right = sums_[2 * node + 1] > 0 && rest >= left;  // rounding must not lead to a weight of 0
      if (goes_right) rest -= left;
      node = 2 * node + (goes_right ? 1 : 0);
    }
    return static_cast<int64_t>(node - leaves_);
  }

  void remove(int64_t sample) {
    size_t node = leaves_ + static_cast<size_t>(sample);
    sums_[node] = 0;
    for (node /= 2; node >= 1; node /= 2) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

 private:
  size_t leaves_;
  std::vector<double> sums_;  // node 1 is the root; n has the children 2n and 2n + 1
};

void check(const std::vector<double>& weights, int64_t samples_per_epoch, bool replacement) {
  if (!std::ranges::all_of(weights, [](double weight) { return std::isfinite(weight) && weight >= 0; })) {
    throw UserError("weighted_sampler was given a weight that is negative or not finite");
  }
  const auto usable = std::ranges::count_if(weights, [](double weight) { return weight > 0; });
  if (usable == 0) throw UserError("weighted_sampler was given no weight above 0");
  if (samples_per_epoch < 1) throw UserError("weighted_sampler needs at least one sample an epoch");
  if (replacement || samples_per_epoch <= usable) return;
  throw UserError("weighted_sampler cannot draw " + std::to_string(samples_per_epoch) +
                  " samples without replacement: only " + std::to_string(usable) + " weights are above 0");
}

}  // namespace

Sampler weighted_sampler(std::vector<double> weights, int64_t samples_per_epoch, bool replacement) {
  check(weights, samples_per_epoch, replacement);
  const auto count = static_cast<int64_t>(weights.size());
  const auto whole = std::make_shared<const WeightTree>(weights);
  return [=](int64_t size, const Shard& shard) {
    if (size != count) {
      throw UserError("weighted_sampler has " + std::to_string(count) + " weights for " + std::to_string(size) +
                      " samples; give one for each sample");
    }
    WeightTree tree = *whole;
    std::mt19937_64 generator(mixed(mixed(shard.seed) ^ static_cast<uint64_t>(shard.epoch)));
    std::vector<int64_t> drawn;
    for (int64_t i = 0; i < samples_per_epoch; ++i) {
      drawn.push_back(tree.at(static_cast<double>(generator() >> 11) * 0x1p-53));
      if (!replacement) tree.remove(drawn.back());
    }
    std::vector<int64_t> mine;
    const int64_t positions = (samples_per_epoch + shard.world_size - 1) / shard.world_size * shard.world_size;
    for (int64_t i = shard.rank; i < positions; i += shard.world_size) {
      mine.push_back(drawn[static_cast<size_t>(i % samples_per_epoch)]);
    }
    return mine;
  };
}

}  // namespace cohort
