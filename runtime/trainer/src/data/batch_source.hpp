// One pass over a loader's data, batch by batch.
//
// Owned by a loop and used from its thread; shares the dataset. `open_batches` picks the kind.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cohort/data.hpp>
#include <cohort/host/options.hpp>

namespace cohort {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Batches that are still to come, at most `wanted`. A stream reads that far ahead to tell.
  virtual int64_t available(int64_t wanted) = 0;
  /// The next batch. Only after `available` was positive.
  virtual Batch next() = 0;
  /// State of the default generator before batches were read ahead that `next` has not given yet; undefined where there
  /// are none, or where reading draws nothing that could be drawn again.
  virtual at::Tensor generator_before_ahead() const { return {}; }
  /// Returns what a stream has saved of itself before the batch that `next` gives next.
  virtual CallbackState stream_state() const { return {}; }
  /// Waits until nothing is read ahead in another thread: then the default generator is at rest.
  virtual void settle() {}
};

enum class Purpose { kTraining, kEvaluation };

/// The part of an epoch that another number of ranks has trained on: the samples behind it are divided among the ranks
/// of now.
struct EarlierPart {
  int64_t batches = 0;  ///< of each rank
  int64_t samples = 0;  ///< of all ranks, in the epoch's order
};

/// Returns the number of batches at which an epoch of a rank ends, if that is known without asking a user's sampler or
/// stream. Throws as count_batches does.
std::optional<int64_t> planned_batches(const Loader& training, int world_size, const BatchLimit& limit,
                                       const EarlierPart& earlier = {});

/// The place in a pass that an earlier run has begun, from which it goes on.
struct PassBegin {
  int64_t batches = 0;  ///< of this rank that were read before, with those of `earlier`
  EarlierPart earlier{};
  CallbackState stream_state{};
};

/// Batches of this rank's pass, or nothing for a stream. Throws UserError for a loader that cannot be used (no samples,
/// both a dataset and a stream, batch size below 1, a fraction of a stream). `name` ("training data") is for messages.
std::optional<int64_t> count_batches(const Loader& loader, const Shard& shard, Purpose purpose, const BatchLimit& limit,
                                     const std::string& name);

/// Returns the samples of this rank's pass, in order, behind the first `begin` of all ranks; of a dataset. Throws
/// UserError for a sampler that gives others.
std::vector<int64_t> indices_of(const Loader& loader, const Shard& shard, Purpose purpose, const std::string& name,
                                int64_t begin = 0);

/// Begins a pass. Workers that read ahead pin batches for the device. A stream that has saved its state resumes from
/// it; another one is read up to that batch. Throws as count_batches does. Only the runtime's own samplers know an
/// earlier part.
std::unique_ptr<BatchSource> open_batches(const Loader& loader, const Shard& shard, Purpose purpose,
                                          const BatchLimit& limit, const std::string& name, const PassBegin& begin = {},
                                          c10::Device device = c10::kCPU);

}  // namespace cohort
