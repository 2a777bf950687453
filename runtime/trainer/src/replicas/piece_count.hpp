// Into how many pieces the batches of a training are cut, and whether more may be tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <cohort/module.hpp>
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
  /// Returns the next number of pieces to try for the batch; 0: it has no samples for more.
  size_t next() const;
  void set_count(size_t count) { count_ = count; }

  /// Returns whether no batch of the same shapes has been trained yet, in this phase of the step, by the same weights,
  /// and with an optimizer that has its state.
  bool is_new(const Batch& batch, const Module& module) const { return !known_.contains(shapes_of(batch, module)); }
  /// Takes note of a batch that was trained after `steps` steps of the training.
  void note_trained(const Batch& batch, const Module& module, uint64_t steps);

 private:
  using Shapes = std::vector<int64_t>;
  const size_t replicas_;
  const bool is_auto_, is_said_;
  size_t count_;
  int64_t samples_ = 0;               // of the last batch
  bool has_cut_ = false;              // a batch
  std::map<size_t, uint64_t> steps_;  // by phase, before its first batch
  std::set<Shapes> known_;

  static Shapes shapes_of(const Batch& batch, const Module& module);
};

}  // namespace cohort
