#include <cmath>
#include <numeric>
#include <string>

#include <cohort/data.hpp>
#include <cohort/host/error.hpp>
#include <cohort/sampler.hpp>

namespace cohort {
namespace {

using Indices = std::vector<int64_t>;

class Part final : public Dataset {
 public:
  Part(std::shared_ptr<Dataset> whole, Indices indices) : whole_(std::move(whole)), indices_(std::move(indices)) {}
  int64_t size() const override { return std::ssize(indices_); }
  Batch get(std::span<const int64_t> indices) override {
    Indices of_whole;
    for (const int64_t index : indices) of_whole.push_back(indices_.at(static_cast<size_t>(index)));
    return whole_->get(of_whole);
  }

 private:
  const std::shared_ptr<Dataset> whole_;
  const Indices indices_;
};

/// Leaves the batches to the loader's collate.
class PartOfSamples final : public SampleDataset {
 public:
  PartOfSamples(std::shared_ptr<SampleDataset> whole, Indices indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}
  int64_t size() const override { return std::ssize(indices_); }
  Value sample(int64_t index) override { return whole_->sample(indices_.at(static_cast<size_t>(index))); }

 private:
  const std::shared_ptr<SampleDataset> whole_;
  const Indices indices_;
};

bool are_counts(std::span<const double> shares, int64_t size) {
  const auto is_whole = [](double share) { return share == std::floor(share); };
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  return std::ranges::all_of(shares, is_whole) && sum == static_cast<double>(size);
}

/// Returns how many samples each part has.
Indices sizes_of(std::span<const double> shares, int64_t size) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool counts = are_counts(shares, size);
  for (size_t part = 0; part < shares.size(); ++part) {
    if (shares[part] >= 0) continue;
    throw UserError("split: the share of part " + std::to_string(part) + " is " + std::to_string(shares[part]) +
                    "; give numbers above 0");
  }
  if (!counts && std::abs(sum - 1) > 1e-6) {
    throw UserError("split: the shares add up to " + std::to_string(sum) +
                    "; give parts of 1, such as {0.8, 0.2}, or " + "numbers of samples that add up to " +
                    std::to_string(size));
  }
  Indices sizes;
  int64_t left = size;
  for (const double share : shares) {
    // Less than a rounding error below a whole number is that number: 0.29 * 100 is 28.999999999999996.
    sizes.push_back(static_cast<int64_t>(counts ? share : std::floor(share * static_cast<double>(size) + 1e-6)));
    left -= sizes.back();
  }
  for (size_t part = 0; left > 0; part = (part + 1) % sizes.size(), --left) ++sizes[part];
  return sizes;
}

}  // namespace

std::vector<std::shared_ptr<Dataset>> split(const GivenData<Dataset>& dataset, std::span<const double> shares,
                                            uint64_t seed) {
  constexpr int64_t kNoEpoch = -1;  // whose order is none of training's
  if (!dataset) throw UserError("split was given no dataset");
  const Indices order = permutation(dataset->size(), seed, kNoEpoch);
  std::vector<std::shared_ptr<Dataset>> parts;
  auto begin = order.begin();
  for (const int64_t size : sizes_of(shares, dataset->size())) {
    if (size == 0) {
      throw UserError("split: part " + std::to_string(parts.size()) + " of " + std::to_string(shares.size()) +
                      " has none of the " + std::to_string(dataset->size()) + " samples; give it a larger share");
    }
    Indices own(begin, begin + size);
    begin += size;
    if (auto samples = std::dynamic_pointer_cast<SampleDataset>(dataset)) {
      parts.push_back(std::make_shared<PartOfSamples>(std::move(samples), std::move(own)));
    } else {
      parts.push_back(std::make_shared<Part>(dataset, std::move(own)));
    }
  }
  return parts;
}

}  // namespace cohort
