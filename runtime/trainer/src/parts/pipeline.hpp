// Trains on batches with the model in parts: the pieces of a batch follow each other from part to part.
//
// Each piece runs on a lane, which is a thread with a copy of the module; copies use the weights and buffers of the
// user's module, which is the first. Belongs to the thread of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cohort/module.hpp>
#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>

#include "copies/replica_threads.hpp"
#include "copies/scatter.hpp"
#include "metrics/metric_board.hpp"
#include "parts/gates.hpp"
#include "parts/node_pointer.hpp"
#include "parts/part_use.hpp"
#include "parts/parts_plan.hpp"
#include "parts/piece.hpp"

namespace cohort {

class Pipeline {
 public:
  /// Calls of the user's code, with their places. May run on the threads of lanes, but for training_step_end.
  struct Calls {
    std::function<Output(Module& copy, const Batch& piece, int64_t index)> training_step;
    std::function<bool(Module& copy, const Output& outputs, int64_t index, Output& whole)> training_step_end;
    std::function<void(const StepDriver& session, const at::Tensor& loss)> note_loss;  ///< before its backward
    std::function<void(StepDriver& session, const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& roots,
                       const std::vector<at::Tensor>& gradients, int64_t index)>
        run_backward;
  };

  struct FirstBatch {
    size_t num_pieces;
    const Batch* batch;  ///< may be null but on the first rank
    bool grows;          ///< into more pieces if measuring them finds no memory
  };

  /// Cuts the model, by steps of its copy on a piece of the batch, and moves the parts to their devices. Collective.
  /// Throws UserError if the strategy refuses, and what the steps throw. `profile` may be null.
  Pipeline(Runtime& runtime, Module& module, Calls calls, StepDriver& session, const FirstBatch& first,
           Profile* profile);

  /// Returns a table of what the parts have taken; see PartUse.
  std::string table() const { return use_->table(); }
  size_t num_lanes() const { return lanes_.size(); }
  /// Returns the number of pieces of a batch that the parts were cut for.
  size_t num_pieces() const { return num_pieces_; }
  /// Runs forward and backward of the pieces of a micro-batch, up to session.end_backward. Returns the loss, detached,
  /// before it was multiplied by `scale`. What the pieces log is on `boards`, one for each.
  at::Tensor train(StepDriver& session, const BatchPieces& pieces, std::span<MetricBoard> boards, int64_t index,
                   double scale);

 private:
  struct Work;
  /// Gives the loop's thread the number of threads of a part, as long as it lives: idle threads of OpenMP spin for
  /// milliseconds, and would take the cores of lanes.
  class ThreadsOfPart {
   public:
    ThreadsOfPart(int threads, int before);
    ~ThreadsOfPart();
    ThreadsOfPart(const ThreadsOfPart&) = delete;
    ThreadsOfPart& operator=(const ThreadsOfPart&) = delete;

   private:
    int before_;
  };

  Runtime& runtime_;
  Module& module_;
  const Calls calls_;
  const size_t num_parts_;
  size_t num_pieces_;
  const ThreadsOfPart threads_of_loop_;
  PartsPlan plan_;
  PartTable table_;
  std::vector<std::vector<at::Tensor>> parameters_;  // by part, the last one of the step first
  std::vector<bool> trained_;                        // the module's parameters
  std::vector<NodePointer> accumulators_;            // of the same
  std::vector<std::shared_ptr<Module>> copies_;
  std::vector<Module*> lanes_;
  PartDevices devices_;
  std::optional<PartUse> use_;
  std::optional<Gates> gates_;  // of the parts, and one that losses pass
  std::unique_ptr<ReplicaThreads> threads_;

  int threads_of_part() const;
  void follow_module();
  void lead_gradients_of(const Module& copy) const;
  UnitProfile measure(const Batch& batch, size_t num_phases);
  UnitProfile measure_what_fits(const FirstBatch& first, size_t num_phases);
  void make_lanes();
  void run(size_t pieces, const std::function<void(size_t lane, size_t piece)>& work);
  void run_forward(Work& work, size_t lane, size_t piece);
  void run_backward(Work& work, size_t piece, std::vector<std::pair<at::Tensor, at::Tensor>> roots);
  std::pair<at::Tensor, at::Tensor> root_of(Work& work, size_t piece);
  at::Tensor end_step(Work& work, const Gathered& gathered);
  Piece::Listener listener(size_t piece);
};

}  // namespace cohort
