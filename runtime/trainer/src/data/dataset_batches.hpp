// The batches of one pass over a dataset by number, for whoever reads them: the loop itself, or threads ahead of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <cohort/data.hpp>

#include "data/batch_random.hpp"

namespace cohort {

class DatasetBatches {
 public:
  /// `indices` of the samples from batch `first` to the end of the pass, in order; `count`: where the batches that are
  /// read end.
  DatasetBatches(const Loader& loader, std::vector<int64_t> indices, int64_t first, int64_t count, BatchSeeds seeds);

  int64_t count() const { return count_; }
  /// Reads the batch of this number, from `first`; it says its samples. Throws UserError for kept samples that are
  /// none. Several threads may call it if the dataset allows that.
  Batch read(int64_t batch) const;

 private:
  std::shared_ptr<Dataset> dataset_;
  std::function<Batch(std::span<const Value>)> collate_;  // empty: the dataset makes batches
  std::vector<int64_t> indices_;
  size_t batch_size_;
  int64_t first_;
  int64_t count_;
  BatchSeeds seeds_;

  Batch make(std::span<const int64_t> rows) const;
};

/// Throws UserError if the loader has a function that collates samples, but a dataset that gives batches alone.
void check_collate(const Loader& loader, const std::string& name);

}  // namespace cohort
