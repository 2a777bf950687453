// Data for training and evaluation: datasets, and how they are cut into batches.
//
// A DataModule hands out loaders; the datasets behind them are shared. They are used from one thread at a time, which
// is a thread of the loader's own with `prefetch` or one of `workers`; with several workers Dataset::get is called from
// all of them at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>

#include <cohort/callback.hpp>
#include <cohort/sampler.hpp>
#include <cohort/stage.hpp>
#include <cohort/value.hpp>

namespace cohort {

/// Samples that can be asked for by index.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// The samples at these indices, stacked into one batch. Random numbers come from data_generator(). If an index is
  /// more than one sample, a whole batch say, the batch says how many it has: Value::samples.
  virtual Batch get(std::span<const int64_t> indices) = 0;
};

/// Samples that are asked for one at a time; Loader::collate makes the batch, or `stack` does.
class SampleDataset : public Dataset {
 public:
  virtual Value sample(int64_t index) = 0;
  Batch get(std::span<const int64_t> indices) final;
};

/// Returns samples of the same structure as one batch of that structure: each tensor stacked along a new dimension 0.
/// Throws UserError if the samples differ in structure or shape.
Batch stack(std::span<const Value> samples);

/// Returns the source of random numbers for the batch that this thread is reading. It begins anew with each batch, from
/// the seed, the epoch, the rank and the number of the batch, so that a batch is the same in every run, with any number
/// of workers, and after a resume. Outside of a loop it is LibTorch's default generator.
at::Generator data_generator();

/// Tensors of equal dimension 0; a batch is the list of their rows (one tensor: the tensor of its rows).
class TensorDataset final : public Dataset {
 public:
  /// Throws UserError where there is no tensor or dimensions 0 differ.
  explicit TensorDataset(std::vector<at::Tensor> tensors);
  int64_t size() const override;
  Batch get(std::span<const int64_t> indices) override;

 private:
  std::vector<at::Tensor> tensors_;
};

/// Batches that come one after another, their number unknown. The epoch ends when the first rank runs out, or under
/// --uneven=join the last one.
class StreamDataset {
 public:
  virtual ~StreamDataset() = default;
  /// Before each pass. The stream itself sees to it that ranks read different data.
  virtual void start(const Shard& shard) = 0;
  /// The next batch, or nothing at the end.
  virtual std::optional<Batch> next() = 0;

  /// Saves where the stream is, for checkpoints in the middle of an epoch; called before each batch, on every rank.
  /// load_state comes after start() and puts the stream there. A stream that saves nothing is read from its beginning
  /// when a training resumes, and the batches that were trained on are dropped. One that was at its end is there again.
  virtual void save_state(CallbackState& /*state*/) const {}
  virtual void load_state(const CallbackState& /*state*/) {}
};

/// How a dataset is cut into batches. Set `dataset` or `stream`.
struct Loader {
  std::shared_ptr<Dataset> dataset{};
  int64_t batch_size = 1;  ///< samples per process
  bool shuffle = false;    ///< anew in each epoch; ignored in evaluation
  bool drop_last = false;  ///< leave a last, smaller batch out
  bool prefetch = false;   ///< one worker
  int workers = 0;         ///< threads that read up to two batches ahead each, in pinned memory for a device
  Sampler sampler{};       ///< replaces the runtime's; then `shuffle` means nothing
  std::function<Batch(std::span<const Value> samples)> collate{};  ///< makes the batches of a SampleDataset
  std::shared_ptr<StreamDataset> stream{};
  std::string name{};  ///< of several for validation or test: the end of their metrics' names

  bool empty() const { return !dataset && !stream; }
};

class DataModule;
class Runtime;
/// Calls prepare() of data that was not prepared before, on the first rank of each node; returns when all are done.
/// For the loops. Collective.
void prepare_once(Runtime& runtime, DataModule& data);

/// The data of a program. Asked anew whenever a loop begins.
class DataModule {
 public:
  virtual ~DataModule() = default;

  /// Downloads and converts: runs once in a program, on the first rank of each node, before any rank goes on. What it
  /// leaves in members the other ranks do not have; leave it in files.
  virtual void prepare() {}
  /// Opens what the loop needs, on every rank, before its loaders are asked for.
  virtual void setup(Stage /*stage*/) {}

  virtual Loader train() { return {}; }
  virtual Loader validation() { return {}; }
  virtual Loader test() { return {}; }
  virtual Loader predict() { return {}; }
  /// Override these in place of validation() and test() for several sets. They are evaluated one after another, and
  /// metrics of each end in "/NAME", or in "/0", "/1", ... if its loader has no name.
  virtual std::vector<Loader> validation_loaders() { return {validation()}; }
  virtual std::vector<Loader> test_loaders() { return {test()}; }

 private:
  friend void prepare_once(Runtime& runtime, DataModule& data);
  bool is_prepared_ = false;
};

}  // namespace cohort
