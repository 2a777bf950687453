// Data for training and evaluation: datasets, and how they are cut into batches.
//
// A DataModule hands out loaders; the datasets behind them are shared. They are used from one thread at a time, which
// is a thread of the loader's own with `prefetch` or one of `workers`; with several workers Dataset::get is called from
// all of them at once.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  explicit TensorDataset(std::initializer_list<at::Tensor> tensors) : TensorDataset(std::vector<at::Tensor>(tensors)) {}
  template <std::convertible_to<at::Tensor> First, std::convertible_to<at::Tensor>... More>
  explicit TensorDataset(const First& first, const More&... more)
      : TensorDataset(std::vector<at::Tensor>{first, more...}) {}
  int64_t size() const override;
  Batch get(std::span<const int64_t> indices) override;

 private:
  std::vector<at::Tensor> tensors_;
};

/// A shared pointer to a dataset or stream, which is made of an object as well: `.dataset = TensorDataset(x, y)`.
template <class Base>
class GivenData : public std::shared_ptr<Base> {
 public:
  using std::shared_ptr<Base>::shared_ptr;
  GivenData(std::shared_ptr<Base> data)  // NOLINT(google-explicit-constructor): a member of a Loader
      : std::shared_ptr<Base>(std::move(data)) {}
  template <std::derived_from<Base> Data>
  GivenData(Data data)  // NOLINT(google-explicit-constructor): the same
      : std::shared_ptr<Base>(std::make_shared<Data>(std::move(data))) {}
};

/// Returns parts of a dataset that have no sample in common, drawn by chance: `shares` are parts of 1 that add up to 1,
/// or numbers of samples that add up to the dataset's size. Samples that parts of 1 leave over go to the first ones.
/// The same parts on every rank and platform for the same seed. Throws UserError for other shares, and for a part
/// without a sample.
///
///   auto [training, validation] = cohort::split(TensorDataset(x, y), {0.8, 0.2});
std::vector<std::shared_ptr<Dataset>> split(const GivenData<Dataset>& dataset, std::span<const double> shares,
                                            uint64_t seed = 0);
template <size_t Count>
std::array<std::shared_ptr<Dataset>, Count> split(const GivenData<Dataset>& dataset, const double (&shares)[Count],
                                                  uint64_t seed = 0) {
  std::array<std::shared_ptr<Dataset>, Count> parts;
  std::ranges::move(split(dataset, std::span<const double>(shares), seed), parts.begin());
  return parts;
}

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
  GivenData<Dataset> dataset{};
  int64_t batch_size = 1;  ///< samples per process
  bool shuffle = false;    ///< anew in each epoch; ignored in evaluation
  bool drop_last = false;  ///< leave a last, smaller batch out
  bool prefetch = false;   ///< one worker
  int workers = 0;         ///< threads that read up to two batches ahead each, in pinned memory for a device
  Sampler sampler{};       ///< replaces the runtime's; then `shuffle` means nothing
  std::function<Batch(std::span<const Value> samples)> collate{};  ///< makes the batches of a SampleDataset
  GivenData<StreamDataset> stream{};
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
