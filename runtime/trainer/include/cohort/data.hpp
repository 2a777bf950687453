// Data for training and evaluation: datasets, and how they are cut into batches.
//
// A DataModule hands out loaders; the datasets behind them are shared. They are used from one thread at a time, which
// is a thread of the loader's own where `prefetch` is set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <cohort/sampler.hpp>
#include <cohort/value.hpp>

namespace cohort {

/// Samples that can be asked for by index.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// The samples at these indices, stacked into one batch.
  virtual Batch get(std::span<const int64_t> indices) = 0;
};

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

/// Batches that come one after another, their number unknown. The epoch ends when the first rank runs out.
class StreamDataset {
 public:
  virtual ~StreamDataset() = default;
  /// Before each pass. The stream itself sees to it that ranks read different data.
  virtual void start(const Shard& shard) = 0;
  /// The next batch, or nothing at the end.
  virtual std::optional<Batch> next() = 0;
};

/// How a dataset is cut into batches. Set `dataset` or `stream`.
struct Loader {
  std::shared_ptr<Dataset> dataset{};
  int64_t batch_size = 1;  ///< samples per process
  bool shuffle = false;    ///< anew in each epoch; ignored in evaluation
  bool drop_last = false;  ///< leave a last, smaller batch out
  bool prefetch = false;   ///< make the next batch in a thread while the step runs, in pinned memory for a device
  Sampler sampler{};       ///< replaces the runtime's; then `shuffle` means nothing
  std::shared_ptr<StreamDataset> stream{};

  bool empty() const { return !dataset && !stream; }
};

/// The data of a program. Asked anew whenever a loop begins.
class DataModule {
 public:
  virtual ~DataModule() = default;
  virtual Loader train() { return {}; }
  virtual Loader validation() { return {}; }
  virtual Loader test() { return {}; }
  virtual Loader predict() { return {}; }
};

}  // namespace cohort
