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
constexpr int64_t kMostWorkers = 1024;  // of one loader

void check_workers(const Loader& loader, const std::string& name) {
  if (loader.workers < 0 || loader.workers > kMostWorkers) {
    throw UserError("the loader of the " + name + " has workers = " + std::to_string(loader.workers) +
                    "; give a number of threads from 0 to " + std::to_string(kMostWorkers) +
                    ", seldom more than the cores of this machine");
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

/// Returns the number of batches at which the pass ends, if `count` follow the earlier part. A limit by fraction leaves
/// out the same samples for every number of ranks.
int64_t end_of_pass(const EarlierPart& earlier, int64_t count, const Loader& loader, const Shard& shard,
                    const BatchLimit& limit) {
  if (earlier.samples == 0) return limit.of(count);
  int64_t allowed = count;
  if (limit.count) allowed = *limit.count - earlier.batches;
  if (limit.fraction) {
    const int64_t samples_per_step = loader.batch_size * shard.world_size;
    const int64_t of_all = batches_of((loader.dataset->size() + shard.world_size - 1) / shard.world_size, loader);
    allowed = limit.of(of_all) - earlier.samples / samples_per_step;
  }
  return earlier.batches + std::clamp<int64_t>(allowed, 0, count);
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
  StreamSource(std::shared_ptr<StreamDataset> stream, int64_t limit, BatchSeeds seeds, std::string name)
      : stream_(std::move(stream)), unread_(limit), seeds_(seeds), name_(std::move(name)) {}

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
      const BatchRandom random(seeds_.seed_of(read_));
      auto batch = reading(name_, read_++, "", [&] { return stream_->next(); });
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
  std::string name_;
  std::deque<Ahead> ahead_;
};

}  // namespace

std::vector<int64_t> indices_of(const Loader& loader, const Shard& shard, Purpose purpose, const std::string& name,
                                int64_t begin) {
  const int64_t size = loader.dataset->size();
  if (!loader.sampler) {
    return purpose == Purpose::kTraining ? training_indices(size, shard, loader.shuffle, begin)
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

std::optional<int64_t> planned_batches(const Loader& training, int world_size, const BatchLimit& limit,
                                       const EarlierPart& earlier) {
  if (training.sampler || training.empty()) return std::nullopt;
  Loader unshuffled = training;
  unshuffled.shuffle = false;
  const Shard shard{0, world_size, 0, 0};
  const std::string name = "training data";
  if (earlier.samples == 0) return count_batches(unshuffled, shard, Purpose::kTraining, limit, name);
  const auto samples = std::ssize(indices_of(unshuffled, shard, Purpose::kTraining, name, earlier.samples));
  return end_of_pass(earlier, batches_of(samples, training), training, shard, limit);
}

std::unique_ptr<BatchSource> open_batches(const Loader& loader, const Shard& shard, Purpose purpose,
                                          const BatchLimit& limit, const std::string& name, const PassBegin& begin,
                                          c10::Device device) {
  check(loader, limit, name);
  const BatchSeeds seeds{shard, purpose == Purpose::kTraining};
  if (loader.stream) {
    loader.stream->start(shard);
    auto stream = std::make_unique<StreamSource>(loader.stream, limit.count.value_or(kUnlimited), seeds, name);
    stream->skip(begin.batches, begin.stream_state);
    return stream;
  }
  auto indices = indices_of(loader, shard, purpose, name, begin.earlier.samples);
  const auto samples = static_cast<int64_t>(indices.size());
  const int64_t count = batches_of(samples, loader);
  if (begin.earlier.samples == 0) check_drop_last(count, samples, loader, purpose, name);
  const int64_t end = end_of_pass(begin.earlier, count, loader, shard, limit);
  DatasetBatches batches(loader, name, std::move(indices), begin.earlier.batches, end, seeds);
  const int64_t workers = std::max<int64_t>(loader.workers, loader.prefetch ? 1 : 0);
  if (workers > 0) return read_by_workers(std::move(batches), begin.batches, workers, device);
  return std::make_unique<DatasetSource>(std::move(batches), begin.batches);
}

}  // namespace cohort
