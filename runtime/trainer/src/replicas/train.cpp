// Training on a batch: forward and backward of its pieces, one after another, each on all replicas at once.
#include <exception>
#include <string>

#include <cohort/host/error.hpp>
#include <cohort/torch_error.hpp>

#include "copies/scatter.hpp"
#include "module/loss.hpp"
#include "replicas/replicas.hpp"
#include "replicas/weight_guard.hpp"
#include "report/device_memory.hpp"

namespace cohort {
namespace {

/// Returns the batch, or a copy if a step could write to the loader's own, which a second attempt would read.
Batch own_copy(const Batch& batch, c10::Device device) {
  if (!device.is_cpu()) return batch;
  const auto copied = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; };
  return batch.map_tensors(copied).with_samples_of(batch);
}

}  // namespace

// A strategy may have sent gradients when the memory ends. So they are held back where it is not known that it lasts.
at::Tensor Replicas::train(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale) {
  if (!pieces_.is_auto()) return train_once(session, board, batch, index, scale);
  while (true) {
    session.begin_attempt(/*holds=*/pieces_.is_new(batch, module()));
    before_.keep(modules_, runtime_.devices());
    const LoggedMetrics::Journal::Watch watch(&before_.metrics());
    try {
      at::Tensor loss = train_once(session, board, own_copy(batch, runtime_.device()), index, scale);
      pieces_.note_trained(batch, module(), session.steps());
      return loss;
    } catch (const std::exception& failure) {
      if (!take_more_pieces(session, failure, index)) throw;
    }
  }
}

bool Replicas::take_more_pieces(StepDriver& session, const std::exception& failure, int64_t index) {
  if (!is_out_of_memory(failure) || pieces_.next() == 0 || has_training_end_ == true) return false;
  if (!session.take_back() || !before_.restore()) return false;
  for (const c10::Device device : runtime_.devices()) release_kept_memory(device);
  const size_t before = pieces_.count();
  pieces_.set_count(pieces_.next());
  const std::string now = std::to_string(pieces_.count());
  runtime_.log().info("no memory to train on batch " + std::to_string(index) + " in " + std::to_string(before) +
                      (before == 1 ? " piece" : " pieces") + ": batches have " + now +
                      " from now on, as with --pieces=" + now);
  return true;
}

at::Tensor Replicas::train_once(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index,
                                double scale) {
  pieces_.begin(batch);
  if (pipeline_) return train_in_parts(session, board, batch, index, scale);
  return pieces_.count() > 1 || pieces_.is_auto() ? train_in_pieces(session, board, batch, index, scale)
                                                  : train_whole(session, board, batch, index, scale);
}

at::Tensor Replicas::train_in_pieces(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index,
                                     double scale) {
  const BatchPieces pieces = pieces_.cut(batch);
  PieceBoards boards(pieces.sizes);
  std::vector<at::Tensor> losses;
  for (size_t piece = 0; piece < pieces.sizes.size(); ++piece) {
    session.set_partial(piece + 1 < pieces.sizes.size());
    const Module::Recording recording(module(), &boards[piece]);
    const double share = pieces.share(piece);
    losses.push_back(train_whole(session, &boards[piece], pieces.batches[piece], index, scale * share) * share);
  }
  boards.add_to(board);
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
