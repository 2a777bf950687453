#include "data/batch_source.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <deque>
#include <utility>

#include <cohort/host/error.hpp>

#include "data/prefetch_source.hpp"

namespace cohort {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

void check(const Loader& loader, const BatchLimit& limit, const std::string& name) {
  if (loader.dataset && loader.stream) {
    throw UserError("the loader of the " + name + " has both a dataset and a stream; set one of them");
  }
  if (loader.empty())
    throw UserError("the data module has no " + name + "; return a loader with a dataset or a stream");
  if (loader.stream && limit.fraction) {
    throw UserError("a fraction of the " + name +
                    " was asked for, but it is a stream of unknown length; give a number of batches");
  }
  if (loader.dataset && loader.batch_size < 1) {
    throw UserError("the loader of the " + name + " has batch_size " + std::to_string(loader.batch_size) +
                    "; it must be at least 1");
  }
  if (loader.dataset && loader.dataset->size() < 1) {
    throw UserError("the " + name + " is empty: its dataset has no samples; check where it is read from");
  }
}

int64_t batches_of(int64_t samples, const Loader& loader) {
  return loader.drop_last ? samples / loader.batch_size : (samples + loader.batch_size - 1) / loader.batch_size;
}

void check_drop_last(int64_t batches, int64_t samples, const Loader& loader, Purpose purpose, const std::string& name) {
  if (purpose != Purpose::kTraining || batches > 0 || samples == 0) return;
  throw UserError("the " + name + " has " + std::to_string(samples) + " samples for each rank, fewer than batch_size " +
                  std::to_string(loader.batch_size) + ", and drop_last leaves them out; choose a smaller batch_size");
}

class DatasetSource final : public BatchSource {
 public:
  DatasetSource(std::shared_ptr<Dataset> dataset, std::vector<int64_t> indices, int64_t batch_size, int64_t batches)
      : dataset_(std::move(dataset)),
        indices_(std::move(indices)),
        batch_size_(static_cast<size_t>(batch_size)),
        left_(batches) {}

  int64_t available(int64_t wanted) override { return std::min(wanted, left_); }

  Batch next() override {
    const size_t end = std::min(position_ + batch_size_, indices_.size());
    const std::span<const int64_t> batch(indices_.data() + position_, end - position_);
    position_ = end;
    --left_;
    return dataset_->get(batch);
  }

  void skip(int64_t batches) override {
    batches = std::min(batches, left_);
    position_ = std::min(position_ + static_cast<size_t>(batches) * batch_size_, indices_.size());
    left_ -= batches;
  }

 private:
  std::shared_ptr<Dataset> dataset_;
  std::vector<int64_t> indices_;
  size_t batch_size_;
  int64_t left_;
  size_t position_ = 0;
};

class StreamSource final : public BatchSource {
 public:
  StreamSource(std::shared_ptr<StreamDataset> stream, int64_t limit) : stream_(std::move(stream)), unread_(limit) {}

  int64_t available(int64_t wanted) override {
    while (static_cast<int64_t>(ahead_.size()) < wanted && unread_ > 0) {
      if (ahead_.empty()) before_ahead_ = at::detail::getDefaultCPUGenerator().get_state();
      auto batch = stream_->next();
      unread_ = batch ? unread_ - 1 : 0;
      if (batch) ahead_.push_back(std::move(*batch));
    }
    return std::min(wanted, static_cast<int64_t>(ahead_.size()));
  }

  Batch next() override {
    Batch batch = std::move(ahead_.front());
    ahead_.pop_front();
    return batch;
  }

  at::Tensor generator_before_ahead() const override { return ahead_.empty() ? at::Tensor() : before_ahead_; }

 private:
  std::shared_ptr<StreamDataset> stream_;
  int64_t unread_;  // batches that may still be asked of the stream
  std::deque<Batch> ahead_;
  at::Tensor before_ahead_;
};

}  // namespace

void BatchSource::skip(int64_t batches) {
  for (; batches > 0 && available(1) > 0; --batches) next();
}

std::vector<int64_t> indices_of(const Loader& loader, const Shard& shard, Purpose purpose, const std::string& name) {
  const int64_t size = loader.dataset->size();
  if (!loader.sampler) {
    return purpose == Purpose::kTraining ? training_indices(size, shard, loader.shuffle)
                                         : evaluation_indices(size, shard);
  }
  auto indices = loader.sampler(size, shard);
  for (const int64_t index : indices) {
    if (index < 0 || index >= size) {
      throw UserError("the sampler of the " + name + " gave index " + std::to_string(index) + " for " +
                      std::to_string(size) + " samples");
    }
  }
  return indices;
}

std::optional<int64_t> count_batches(const Loader& loader, const Shard& shard, Purpose purpose, const BatchLimit& limit,
                                     const std::string& name) {
  check(loader, limit, name);
  if (loader.stream) return std::nullopt;
  const auto samples = static_cast<int64_t>(indices_of(loader, shard, purpose, name).size());
  const int64_t batches = batches_of(samples, loader);
  check_drop_last(batches, samples, loader, purpose, name);
  return limit.of(batches);
}

std::optional<int64_t> planned_batches(const Loader& training, int world_size, const BatchLimit& limit) {
  if (training.sampler || training.empty()) return std::nullopt;
  Loader unshuffled = training;
  unshuffled.shuffle = false;
  return count_batches(unshuffled, {0, world_size, 0, 0}, Purpose::kTraining, limit, "training data");
}

std::unique_ptr<BatchSource> open_batches(const Loader& loader, const Shard& shard, Purpose purpose,
                                          const BatchLimit& limit, const std::string& name, int64_t skipped,
                                          c10::Device device) {
  check(loader, limit, name);
  if (loader.stream) {
    loader.stream->start(shard);
    auto stream = std::make_unique<StreamSource>(loader.stream, limit.count.value_or(kUnlimited));
    stream->skip(skipped);
    return stream;
  }
  auto indices = indices_of(loader, shard, purpose, name);
  const auto samples = static_cast<int64_t>(indices.size());
  const int64_t batches = batches_of(samples, loader);
  check_drop_last(batches, samples, loader, purpose, name);
  auto source =
      std::make_unique<DatasetSource>(loader.dataset, std::move(indices), loader.batch_size, limit.of(batches));
  source->skip(skipped);
  if (!loader.prefetch) return source;
  return with_prefetch(std::move(source), device);
}

}  // namespace cohort
