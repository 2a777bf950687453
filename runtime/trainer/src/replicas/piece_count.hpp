// Into how many pieces the batches of a training are cut, and whether more may be tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include <cohort/runtime.hpp>
#include <cohort/value.hpp>

#include "copies/scatter.hpp"

namespace cohort {

class PieceCount {
 public:
  /// `replicas`: what each piece is cut into once more.
  PieceCount(const Runtime& runtime, size_t replicas);

  size_t count() const { return count_; }
  /// Returns whether a batch that does not fit into the memory is tried in more pieces.
  bool is_auto() const { return is_auto_; }
  /// Begins a batch.
  void begin(const Batch& batch) { samples_ = batch.batch_size(); }
  /// Returns the pieces of the batch. Throws UserError if --pieces asks for more than the first batch has samples.
  BatchPieces cut(const Batch& batch);
  /// Returns whether the last batch had samples for more pieces.
  bool could_be_more() const { return samples_ >= static_cast<int64_t>(2 * count_ * replicas_); }
  void set_count(size_t count) { count_ = count; }

  /// Returns whether no batch of the same shapes has been trained yet, with an optimizer that has its state.
  bool is_new(const Batch& batch) const { return !known_.contains(shapes_of(batch)); }
  /// Takes note of a batch that was trained after `steps` steps of the training.
  void note_trained(const Batch& batch, uint64_t steps);

 private:
  using Shapes = std::vector<int64_t>;
  const size_t replicas_;
  const bool is_auto_, is_said_;
  size_t count_;
  int64_t samples_ = 0;            // of the last batch
  bool has_cut_ = false;           // a batch
  std::optional<uint64_t> steps_;  // before the first batch
  std::set<Shapes> known_;

  static Shapes shapes_of(const Batch& batch);
};

}  // namespace cohort
