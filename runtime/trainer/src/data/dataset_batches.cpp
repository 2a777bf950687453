#include "data/dataset_batches.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

void check_kept(const Batch& batch, int64_t read, int64_t number) {
  if (!batch.kept_samples()) return;
  std::vector<bool> is_kept(static_cast<size_t>(read));
  for (const int64_t position : *batch.kept_samples()) {
    const bool is_one = position >= 0 && position < read;
    if (is_one && !is_kept[static_cast<size_t>(position)]) {
      is_kept[static_cast<size_t>(position)] = true;
      continue;
    }
    throw UserError("batch " + std::to_string(number) + ": kept_samples has " + std::to_string(position) +
                    (is_one ? " twice" : ", which is no position among the " + std::to_string(read) + " samples read") +
                    "; give the position of each sample that stays, once");
  }
}

}  // namespace

void Reading::put_in_words(const void* reading, host::TextInRoom& text) {
  const auto& own = *static_cast<const Reading*>(reading);
  text << "the reading of batch " << own.batch_ << " of the " << own.name_;
  if (!own.reader_.empty()) text << " in " << own.reader_;
}

DatasetBatches::DatasetBatches(const Loader& loader, std::string name, std::vector<int64_t> indices, int64_t first,
                               int64_t count, BatchSeeds seeds)
    : name_(std::move(name)),
      dataset_(loader.dataset),
      collate_(loader.collate),
      indices_(std::move(indices)),
      batch_size_(static_cast<size_t>(loader.batch_size)),
      first_(first),
      count_(count),
      seeds_(seeds) {}

Batch DatasetBatches::read(int64_t batch, const std::string& reader) const {
  const size_t begin = static_cast<size_t>(batch - first_) * batch_size_;
  const auto rows = std::span(indices_).subspan(begin, std::min(batch_size_, indices_.size() - begin));
  const BatchRandom random(seeds_.seed_of(batch));
  Batch made = reading(name_, batch, reader, [&] { return make(rows); });
  if (!made.says_samples()) made.samples(std::ssize(rows));
  check_kept(made, std::ssize(rows), batch);
  return made;
}

Batch DatasetBatches::make(std::span<const int64_t> rows) const {
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
