#include "data/batch_source.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <deque>
#include <utility>

#include <cohort/host/error.hpp>

#include "data/dataset_batches.hpp"
#include "data/worker_source.hpp"

namespace cohort {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

void check_workers(const Loader& loader, const std::string& name) {
  if (loader.workers < 0) {
    throw UserError("the loader of the " + name + " has workers = " + std::to_string(loader.workers) +
                    "; give 0, or a number of threads");
  }
  if (!loader.stream || loader.workers == 0) return;
  throw UserError(
      "the loader of the " + name +
      " has workers for a stream, which is read by one thread in its order; set workers to 0, or read ahead "
      "in the stream");
}

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
  check_workers(loader, name);
  check_collate(loader, name);
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
  DatasetSource(DatasetBatches batches, int64_t first)
      : batches_(std::move(batches)), next_(std::min(first, batches_.count())) {}

  int64_t available(int64_t wanted) override { return std::min(wanted, batches_.count() - next_); }
  Batch next() override { return batches_.read(next_++); }

 private:
  DatasetBatches batches_;
  int64_t next_;
};

class StreamSource final : public BatchSource {
 public:
  StreamSource(std::shared_ptr<StreamDataset> stream, int64_t limit, BatchSeeds seeds)
      : stream_(std::move(stream)), unread_(limit), seeds_(seeds) {}

  /// Goes on behind batches that an earlier run has trained on.
  void skip(int64_t batches, const CallbackState& state) {
    const bool can_go_there = !state_of_stream().tensors().empty();
    if (state.tensors().empty() || !can_go_there) {
      for (; batches > 0 && available(1) > 0; --batches) next();
      return;
    }
    stream_->load_state(state);
    unread_ -= batches;
    read_ = batches;
  }

  int64_t available(int64_t wanted) override {
    while (static_cast<int64_t>(ahead_.size()) < wanted && unread_ > 0) {
      Ahead ahead{{}, at::detail::getDefaultCPUGenerator().get_state(), state_of_stream()};
      const BatchRandom random(seeds_.seed_of(read_++));
      auto batch = stream_->next();
      unread_ = batch ? unread_ - 1 : 0;
      if (!batch) break;
      ahead.batch = std::move(*batch);
      ahead_.push_back(std::move(ahead));
    }
    return std::min(wanted, static_cast<int64_t>(ahead_.size()));
  }

  Batch next() override {
    Batch batch = std::move(ahead_.front().batch);
    ahead_.pop_front();
    return batch;
  }

  at::Tensor generator_before_ahead() const override {
    return ahead_.empty() ? at::Tensor() : ahead_.front().generator;
  }
  CallbackState stream_state() const override { return ahead_.empty() ? state_of_stream() : ahead_.front().state; }

 private:
  struct Ahead {
    Batch batch;
    at::Tensor generator;  // before the batch was read, as the state of the stream
    CallbackState state;
  };

  // The stream may go on to change its tensors.
  CallbackState state_of_stream() const {
    CallbackState given, kept;
    stream_->save_state(given);
    for (const auto& [name, tensor] : given.tensors()) kept.set(name, tensor.clone());
    return kept;
  }

  std::shared_ptr<StreamDataset> stream_;
  int64_t unread_;  // batches that may still be asked of the stream
  int64_t read_ = 0;
  BatchSeeds seeds_;
  std::deque<Ahead> ahead_;
};

}  // namespace

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
                                          c10::Device device, const CallbackState& stream_state) {
  check(loader, limit, name);
  const BatchSeeds seeds{shard, purpose == Purpose::kTraining};
  if (loader.stream) {
    loader.stream->start(shard);
    auto stream = std::make_unique<StreamSource>(loader.stream, limit.count.value_or(kUnlimited), seeds);
    stream->skip(skipped, stream_state);
    return stream;
  }
  auto indices = indices_of(loader, shard, purpose, name);
  const auto samples = static_cast<int64_t>(indices.size());
  const int64_t count = batches_of(samples, loader);
  check_drop_last(count, samples, loader, purpose, name);
  DatasetBatches batches(loader, std::move(indices), limit.of(count), seeds);
  const int64_t workers = std::max<int64_t>(loader.workers, loader.prefetch ? 1 : 0);
  if (workers > 0) return read_by_workers(std::move(batches), skipped, workers, device);
  return std::make_unique<DatasetSource>(std::move(batches), skipped);
}

}  // namespace cohort
