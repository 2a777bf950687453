// The epoch of a training: its data, and how far the ranks are in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "data/batch_source.hpp"
#include "loop/fit_context.hpp"
#include "loop/joining.hpp"

namespace cohort {

class Epoch {
 public:
  /// `train` lives longer.
  Epoch(const FitContext& fit, const Loader& train) : fit_(fit), train_(train) {}

  int64_t number() const { return number_; }  ///< from 0
  /// Returns the number of batches that are done; between two steps those of the rank that has had most of them.
  int64_t batches() const { return batches_; }
  std::optional<int64_t> length() const { return length_; }  ///< in batches; unknown for a stream
  std::optional<uint64_t> total_steps() const;
  LoopPlace place() const;

  /// Notes how long an epoch will be, as far as that is known before it is opened.
  void plan();
  /// Goes to the place at which the checkpoint was written. Throws UserError on all ranks alike if its data was
  /// another, or if it is in the middle of an epoch and this number of ranks cannot divide the rest. Collective.
  void resume(const LoadedCheckpoint& checkpoint, const Joining& joining);
  /// Begins to read the data at the place of `resumed`, or from the start if it is null; sets how often ranks vote.
  /// Collective if ranks may have different numbers of batches.
  void open(Joining& joining, const LoadedCheckpoint* resumed);
  /// Throws UserError if the epoch has no batch.
  void require_batches(const Joining& joining) const;

  /// Returns the number of batches that are left to this rank, at most `wanted`. A stream reads as far ahead as it is
  /// asked.
  int64_t available(int64_t wanted);
  Batch next();
  void count_batch() { ++batches_; }
  /// Notes the batches that are done after a step. `is_out_of_data`: no further step can be taken.
  void end_step(int64_t batches, bool is_out_of_data);
  /// Returns whether no step of the epoch follows: the data of this rank is at its end, or of all ranks if it joins.
  bool is_complete(const Joining& joining) { return is_out_of_data_ || (!joining.joins() && available(1) == 0); }
  void begin_next();

  /// Waits until nothing is read ahead: then the default generator is at rest.
  void settle();
  /// Writes the state of the data. Call after settle.
  void save(const StateWriter& state) const;

 private:
  void divide_what_is_left(const LoadedCheckpoint& checkpoint, const Joining& joining);
  EarlierPart part_before(const LoadedCheckpoint& checkpoint, const Joining& joining) const;
  int64_t steps_before(int64_t epoch, int ranks) const;
  int64_t left_to_all(int64_t own, Joining& joining);

  const FitContext& fit_;
  const Loader& train_;
  std::unique_ptr<BatchSource> source_;
  int64_t number_ = 0;
  int64_t batches_ = 0;
  std::optional<int64_t> length_;
  std::optional<int64_t> whole_length_;  // of an epoch without an earlier part
  int64_t more_steps_ = 0;               // see LoopPlace
  EarlierPart earlier_;                  // of this epoch
  bool is_out_of_data_ = false;          // the epoch has no further step
};

}  // namespace cohort
