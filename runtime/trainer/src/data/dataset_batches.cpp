#include "data/dataset_batches.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <cohort/host/error.hpp>

namespace cohort {

DatasetBatches::DatasetBatches(const Loader& loader, std::vector<int64_t> indices, int64_t first, int64_t count,
                               BatchSeeds seeds)
    : dataset_(loader.dataset),
      collate_(loader.collate),
      indices_(std::move(indices)),
      batch_size_(static_cast<size_t>(loader.batch_size)),
      first_(first),
      count_(count),
      seeds_(seeds) {}

Batch DatasetBatches::read(int64_t batch) const {
  const size_t begin = static_cast<size_t>(batch - first_) * batch_size_;
  const auto rows = std::span(indices_).subspan(begin, std::min(batch_size_, indices_.size() - begin));
  const BatchRandom random(seeds_.seed_of(batch));
  if (!collate_) return dataset_->get(rows);
  auto& single = dynamic_cast<SampleDataset&>(*dataset_);
  std::vector<Value> samples;
  for (const int64_t row : rows) samples.push_back(single.sample(row));
  return collate_(samples);
}

void check_collate(const Loader& loader, const std::string& name) {
  if (!loader.collate || dynamic_cast<const SampleDataset*>(loader.dataset.get())) return;
  throw UserError("the loader of the " + name +
                  " has collate, which makes a batch of single samples, but its data gives whole batches; derive the "
                  "dataset from SampleDataset, or make the batch in it");
}

}  // namespace cohort
