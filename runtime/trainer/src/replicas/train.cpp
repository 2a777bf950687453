// Training on a batch: forward and backward of its pieces, one after another, each on all replicas at once.
#include <cohort/host/error.hpp>

#include "copies/scatter.hpp"
#include "module/loss.hpp"
#include "replicas/replicas.hpp"
#include "replicas/weight_guard.hpp"

namespace cohort {
at::Tensor Replicas::train(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale) {
  if (pipeline_) return train_in_parts(session, board, batch, index, scale);
  return num_pieces_ > 1 ? train_in_pieces(session, board, batch, index, scale)
                         : train_whole(session, board, batch, index, scale);
}

BatchPieces Replicas::pieces_of_batch(const Batch& batch) {
  if (is_asked_for_pieces_ && !has_trained_ && batch.batch_size() < static_cast<int64_t>(num_pieces_ * count())) {
    throw UserError("the first batch has " + std::to_string(batch.batch_size()) + " samples for --pieces=" +
                    std::to_string(num_pieces_) + (count() > 1 ? " of " + std::to_string(count()) + " replicas" : "") +
                    "; give larger batches, or fewer pieces");
  }
  has_trained_ = true;
  return cut_into(batch, num_pieces_);
}

at::Tensor Replicas::train_in_pieces(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index,
                                     double scale) {
  const BatchPieces pieces = pieces_of_batch(batch);
  std::vector<MetricBoard> boards(pieces.sizes.size());
  std::vector<at::Tensor> losses;
  for (size_t piece = 0; piece < boards.size(); ++piece) {
    session.set_partial(piece + 1 < boards.size());
    boards[piece].begin_batch(pieces.sizes[piece]);
    const Module::Recording recording(module(), &boards[piece]);
    const double share = pieces.share(piece);
    losses.push_back(train_whole(session, &boards[piece], pieces.batches[piece], index, scale * share) * share);
  }
  put_together(boards, board);
  return sum_of(losses);
}

at::Tensor Replicas::train_whole(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index,
                                 double scale) {
  if (count() == 1) {
    Output output = training_step(transfer(batch, index), 0, index);
    return train_alone(session, std::move(output), index, scale);
  }
  const Timed rest = timed(Profile::kReplicas, 0);
  const BatchPieces pieces = cut_for_replicas(batch);
  return has_training_end_ == false ? train_by_losses(session, board, pieces, index, scale)
                                    : train_by_hook(session, board, pieces, index, scale);
}

at::Tensor Replicas::train_there(StepDriver& session, const Batch& there, int64_t index) {
  return train_alone(session, training_step(there, 0, index), index, 1.0);
}

at::Tensor Replicas::train_alone(StepDriver& session, Output output, int64_t index, double scale) {
  if (has_training_end_ != false) {
    Output whole;
    has_training_end_ = training_step_end(Value::list({output}), index, whole);
    if (*has_training_end_) output = std::move(whole);
  }
  const at::Tensor& loss = loss_of(output);
  run_backward(session, loss, scale, 0, index);
  return loss.detach();
}

Output Replicas::train_piece(const BatchPieces& pieces, size_t replica, int64_t index) {
  const WeightGuard guard(*modules_[replica]);
  Output output = training_step(transfer(pieces.batches[replica], index, replica), replica, index);
  guard.check("training_step");
  return output;
}

at::Tensor Replicas::train_by_losses(StepDriver& session, MetricBoard* board, const BatchPieces& pieces, int64_t index,
                                     double scale) {
  std::vector<at::Tensor> losses(pieces.sizes.size());
  run(pieces, board, [&](size_t replica) {
    const Output output = train_piece(pieces, replica, index);
    const at::Tensor& loss = loss_of(output);
    losses[replica] = loss.detach() * pieces.share(replica);
    run_backward(session, loss, scale * pieces.share(replica), replica, index);
  });
  return sum_of(losses);
}

at::Tensor Replicas::train_by_hook(StepDriver& session, MetricBoard* board, const BatchPieces& pieces, int64_t index,
                                   double scale) {
  std::vector<Output> outputs(pieces.sizes.size());
  run(pieces, board, [&](size_t replica) { outputs[replica] = train_piece(pieces, replica, index); });
  Gathered gathered = gather(outputs);
  Output whole;
  has_training_end_ = training_step_end(gathered.list, index, whole);
  if (!*has_training_end_) return backward_of_losses(session, pieces, outputs, index, scale);
  const at::Tensor& loss = loss_of(whole);
  std::vector<at::Tensor> all_leaves;
  for (const auto& leaves : gathered.leaves) all_leaves.insert(all_leaves.end(), leaves.begin(), leaves.end());
  note_backward(session, loss);
  {
    const Timed computes = timed(Profile::kBackward, 0);
    const StepPart part(place("backward", index));
    session.set_partial(true);
    session.run_backward_to(all_leaves, {loss}, {session.root_gradient(loss, scale)});
    session.set_partial(false);
  }
  run(pieces, nullptr, [&](size_t replica) {
    std::vector<at::Tensor> roots, gradients;
    for (const auto& [root, gradient] : take_gradients(gathered, replica)) {
      roots.push_back(root);
      gradients.push_back(gradient);
    }
    if (replica == 0 && unregistered_) unregistered_->note(roots, module());
    const Timed computes = timed(Profile::kBackward, replica);
    const StepPart part(place("backward", index, replica));
    if (!roots.empty()) session.run_backward(roots, gradients, static_cast<uint32_t>(replica));
  });
  return loss.detach();
}

at::Tensor Replicas::backward_of_losses(StepDriver& session, const BatchPieces& pieces, std::span<const Output> outputs,
                                        int64_t index, double scale) {
  std::vector<at::Tensor> losses(outputs.size());
  run(pieces, nullptr, [&](size_t replica) {
    const at::Tensor& loss = loss_of(outputs[replica]);
    losses[replica] = loss.detach() * pieces.share(replica);
    run_backward(session, loss, scale * pieces.share(replica), replica, index);
  });
  return sum_of(losses);
}

}  // namespace cohort
