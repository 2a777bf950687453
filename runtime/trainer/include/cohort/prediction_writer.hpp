// Takes the outputs of Trainer::predict batch by batch, on the rank that computes them, if they are too many for rank
// 0.
//
//   cohort::PredictionFiles files("predictions");
//   trainer.predict(net, data, files);
//
// Owned by the user and called on the thread of the loop. Every rank has its own; where the strategy forks its ranks
// these are copies, and what they change of themselves is gone afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <cohort/value.hpp>

namespace cohort {

/// Holds the outputs of predict_step for one batch, under dp for all its pieces. Borrows its parts.
struct PredictedBatch {
  const Output& outputs;  ///< tensors on the CPU, with a row for each sample
  /// The number of each sample in the dataset; of a stream counted from 0 on each rank, in the order in which it reads.
  std::span<const int64_t> samples;
  int64_t index = 0;  ///< counts the batches of this rank
  int rank = 0;
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  /// Called on rank 0 alone, before the first batch of any rank. What it throws, all ranks throw.
  virtual void prepare() {}
  virtual void write(const PredictedBatch& batch) = 0;
};

/// Writes each batch into a file of its own, FOLDER/rank-0/batch-000000.pt: for torch.load of Python a dictionary of
/// "samples", a tensor of their numbers, and "outputs", in which lists are tuples. A file is complete or absent.
class PredictionFiles final : public PredictionWriter {
 public:
  explicit PredictionFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Makes the folder. Throws UserError if that fails, or if it holds predictions.
  void prepare() override;
  /// Throws UserError if the file cannot be written.
  void write(const PredictedBatch& batch) override;

 private:
  std::filesystem::path folder_;
};

}  // namespace cohort
