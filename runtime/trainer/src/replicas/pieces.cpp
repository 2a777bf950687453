// The model in parts: what a Pipeline calls of the user's module, and the pieces of its batches.
#include <mutex>
#include <string>
#include <utility>

#include <cohort/host/selection.hpp>

#include "replicas/replicas.hpp"
#include "replicas/weight_guard.hpp"

namespace cohort {

namespace {

/// Returns views of the same memory that a step may write to without a sign of it in the other pieces.
Batch with_own_versions(const Batch& piece) {
  const auto view = [](const at::Tensor& tensor) {
    return tensor.defined() && !tensor.requires_grad() ? tensor.variable_data() : tensor;
  };
  return piece.map_tensors(view).with_samples_of(piece);
}

}  // namespace

std::optional<NearWeights> Replicas::near_weights() const {
  if (!devices_ || !devices_->are_apart()) return std::nullopt;
  return std::optional<NearWeights>(std::in_place, module(), *devices_);
}

void Replicas::prepare(StepDriver& session, const Batch* batch) {
  if (pipeline_ || runtime_.selection().parts == 0) return;
  const std::string strategy = "--strategy=" + runtime_.selection().strategy.name;
  if (runtime_.is_first() && !batch) {
    throw UserError(strategy +
                    ": rank 0 has no batch in the first step, by which the model is measured; give it more "
                    "data, or leave --uneven=join out");
  }
  if (module().parameters().empty()) throw UserError(strategy + ": module '" + module().name() + "' has no parameters");
  pipeline_ = std::make_unique<Pipeline>(runtime_, module(), calls_of_pieces(), session,
                                         Pipeline::FirstBatch{pieces_.count(), batch, pieces_.is_auto()}, profile_);
  pieces_.set_count(pipeline_->num_pieces());
}

Pipeline::Calls Replicas::calls_of_pieces() {
  return {
      .training_step =
          [this](Module& copy, const Batch& piece, int64_t index) {
            const Batch there = on_device(copy, piece, 0, index);
            const LoggedMetrics::Journal::Watch watch(journal());
            const Timed computes(profile_, Profile::kForward, /*counts=*/false);  // which the loop's thread alone may
            const Autocast autocast = runtime_.autocast();
            return in_hook(place("training_step", index, 0, &there), [&] { return copy.training_step(there, index); });
          },
      .training_step_end =
          [this](Module& copy, const Output& outputs, int64_t index, Output& whole) {
            const Autocast autocast = runtime_.autocast();
            return detail::StepAccess::call(copy, [&] {
              whole = in_hook(place("training_step_end", index), [&] { return copy.training_step_end(outputs); });
            });
          },
      .note_loss =
          [](const StepDriver& session, const at::Tensor& loss) {
            if (session.hooks().before_backward) session.hooks().before_backward(loss);
          },
      .run_backward =
          [this](StepDriver& session, const auto& leaves, const auto& roots, const auto& gradients, int64_t index) {
            note_roots(roots);
            const NearNodes near(*devices_);
            const StepPart part(place("backward", index));
            try {
              session.run_backward_to(leaves, roots, gradients);
            } catch (...) {
              throw_from_backward(place("backward", index));
            }
          },
  };
}

// Locks, because in the first step several lanes note roots at the same time.
void Replicas::note_roots(const std::vector<at::Tensor>& roots) {
  const std::lock_guard lock(noting_roots_);
  if (unregistered_) unregistered_->note(roots, module());
}

at::Tensor Replicas::train_in_parts(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index,
                                    double scale) {
  const Timed rest = timed(Profile::kReplicas, 0);
  const WeightGuard guard(module());
  BatchPieces pieces = pieces_.cut(batch);
  for (Batch& piece : pieces.batches) piece = with_own_versions(piece);
  PieceBoards boards(pieces.sizes);
  const at::Tensor loss = pipeline_->train(session, pieces, boards.all(), index, scale);
  if (pipeline_->num_lanes() > 1) guard.check("training_step");
  boards.add_to(board);
  return loss;
}

}  // namespace cohort
