#include "replicas/replicas.hpp"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <deque>

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>

#include "copies/clone.hpp"
#include "copies/scatter.hpp"
#include "data/device_copy.hpp"
#include "module/loss.hpp"

namespace cohort {
namespace {

using detail::StepAccess;

/// Returns the batch with its floating tensors in this type.
Batch in_type(const Batch& batch, at::ScalarType type) {
  return batch.map_tensors(
      [&](const at::Tensor& tensor) { return tensor.is_floating_point() ? tensor.to(type) : tensor; });
}

/// While it lives, each module records on the board of its piece.
class PieceRecordings {
 public:
  PieceRecordings(std::span<Module* const> modules, std::span<MetricBoard> boards) {
    for (size_t piece = 0; piece < boards.size(); ++piece) recordings_.emplace_back(*modules[piece], &boards[piece]);
  }

 private:
  std::deque<Module::Recording> recordings_;
};

}  // namespace

Replicas::Replicas(Runtime& runtime, Module& module, Profile* profile)
    : runtime_(runtime), profile_(profile), pieces_(runtime, static_cast<size_t>(runtime.selection().replicas)) {
  modules_.push_back(&module);
  bare_.push_back(&module);
  if (runtime.selection().parts > 0) devices_.emplace(runtime.devices());
  give_copy_stream(0);
  const auto count = static_cast<size_t>(runtime.selection().replicas);
  if (count == 1) return;
  if (!module.automatic_optimization()) {
    throw UserError("strategy '" + runtime.selection().strategy.name +
                    "' cannot run a module that steps by hand (automatic_optimization() is false): its training_step "
                    "runs once for each replica; choose --strategy=ddp");
  }
  while (modules_.size() < count) clone(module);
  // Operators draw random numbers from one generator of the process: only in turn are they the same in every run.
  if (runtime.options().deterministic) return;
  const int threads_each = std::max(1, runtime.threads() / static_cast<int>(count));
  threads_ = std::make_unique<ReplicaThreads>(count, threads_each);
  // Idle threads of OpenMP spin for milliseconds: more of them here would take the replicas' cores.
  at::set_num_threads(threads_each);
}

Replicas::~Replicas() {
  if (threads_) at::set_num_threads(runtime_.threads());
}

void Replicas::clone(Module& module) {
  clones_.push_back(cohort::clone(runtime_, module, runtime_.devices()[modules_.size()]));
  modules_.push_back(clones_.back().get());
  bare_.push_back(clones_.back().get());
  give_copy_stream(modules_.size() - 1);
}

void Replicas::give_copy_stream(size_t replica) {
  const c10::Device device = runtime_.devices()[replica];
  if (!device.is_cpu()) copying_.emplace_back(*modules_[replica], make_copy_stream(device));
}

bool Replicas::would_more_pieces_do(std::string_view hook, const Batch* batch) const {
  const Options& options = runtime_.options();
  const bool is_trained = hook == "training_step" || hook == "backward";
  return is_trained && modules_[0]->automatic_optimization() && !options.graph && !options.sync_batchnorm &&
         has_training_end_ != true && (!batch || batch->batch_size() > 1);
}

HookPlace Replicas::place(const char* hook, int64_t index, size_t replica, const Batch* batch) const {
  const detail::ModulePlace& at = StepAccess::place(module());
  return {.hook = hook,
          .epoch = StepAccess::is_in_fit(module()) ? std::optional(at.epoch) : std::nullopt,
          .index = index,
          .rank = at.rank,
          .replica = count() > 1 ? std::optional(replica) : std::nullopt,
          .batch = batch,
          .more_pieces = would_more_pieces_do(hook, batch) ? static_cast<int64_t>(pieces_.next()) : 0};
}

Batch Replicas::transfer(const Batch& batch, int64_t index, size_t replica) {
  const Timed transfers = timed(Profile::kTransfer, replica);
  return on_device(*modules_[replica], batch, replica, index);
}

Batch Replicas::on_device(Module& module, const Batch& batch, size_t replica, int64_t index) {
  const c10::Device device = runtime_.devices()[replica];
  const Batch there = in_hook(place("transfer_batch", index, replica, &batch), [&] {
                        return module.transfer_batch(pinned(batch, device), device);
                      }).with_samples_of(batch);
  const auto type = model_type(runtime_.options().precision);
  return type ? in_type(there, *type) : there;
}

Output Replicas::training_step(const Batch& there, size_t replica, int64_t index) {
  const Timed computes = timed(Profile::kForward, replica);
  const Autocast autocast = runtime_.autocast();
  return in_hook(place("training_step", index, replica, &there),
                 [&] { return modules_[replica]->training_step(there, index); });
}

bool Replicas::training_step_end(const Output& outputs, int64_t index, Output& whole) {
  const Timed computes(has_training_end_ ? profile_ : nullptr, Profile::kForward);  // not where it is only asked for
  const Autocast autocast = runtime_.autocast();
  const bool is_there = StepAccess::call(module(), [&] {
    whole = in_hook(place("training_step_end", index), [&] { return module().training_step_end(outputs); });
  });
  if (!is_there || pieces_.count() == 1) return is_there;
  const std::string whole_batch = "training_step_end of module '" + module().name() + "' wants the outputs of a whole ";
  if (pieces_.is_auto()) throw UserError(whole_batch + "batch, for which there is no memory; choose a smaller batch");
  throw UserError(whole_batch + "batch, and --pieces trains on one piece after another; leave --pieces out");
}

void Replicas::run_backward(StepDriver& session, const at::Tensor& loss, double scale, size_t replica, int64_t index) {
  if (replica == 0) note_backward(session, loss);
  const Timed computes = timed(Profile::kBackward, replica);
  const StepPart part(place("backward", index, replica));
  try {
    const auto number = static_cast<uint32_t>(replica);
    session.run_backward({loss}, {session.root_gradient(loss, scale, number)}, number);
  } catch (...) {
    throw_from_backward(place("backward", index, replica));
  }
}

void Replicas::note_backward(const StepDriver& session, const at::Tensor& loss) {
  if (unregistered_) unregistered_->note({loss}, module());
  if (session.hooks().before_backward) session.hooks().before_backward(loss);
}

void Replicas::follow_modes() {
  if (count() == 1) return;
  const auto modes = detail::training_modes(*modules_[0]);
  for (size_t replica = 1; replica < count(); ++replica) detail::set_training_modes(*modules_[replica], modes);
}

BatchPieces Replicas::cut_for_replicas(const Batch& batch) {
  BatchPieces pieces = cut_into(batch, count());
  if (pieces.sizes.size() < count() && !has_cut_) {  // later ones may be the short rest of the data
    throw UserError("the first batch has " + std::to_string(batch.batch_size()) + " samples for " +
                    std::to_string(count()) + " replicas; give larger batches, or fewer --devices");
  }
  has_cut_ = true;
  return pieces;
}

// What the pieces log is put together when all are done.
void Replicas::run(const BatchPieces& pieces, MetricBoard* board, const std::function<void(size_t)>& work) {
  const size_t count = pieces.sizes.size();
  PieceBoards boards(pieces.sizes);
  for (size_t piece = 1; piece < count; ++piece) StepAccess::follow(*modules_[piece], *modules_[0]);
  {
    const PieceRecordings recordings(modules_, boards.all());
    const auto on_its_device = [&](size_t replica) {
      const c10::DeviceGuard device(runtime_.devices()[replica]);
      const LoggedMetrics::Journal::Watch watch(journal());
      work(replica);
    };
    threads_ ? threads_->run(count, on_its_device) : run_in_turn(count, on_its_device);
  }
  boards.add_to(board);
}

void Replicas::run_in_turn(size_t count, const std::function<void(size_t)>& work) {
  for (size_t replica = 0; replica < count; ++replica) {
    try {
      work(replica);
    } catch (...) {
      throw_of_replica(std::current_exception(), replica);
    }
  }
}

void Replicas::check_registered() {
  if (unregistered_) unregistered_->check(module());
  unregistered_.reset();
}

void Replicas::train_by_hand(const Batch& batch, int64_t index) {
  training_step(transfer(batch, index), 0, index);
}

std::vector<std::pair<Output, int64_t>> Replicas::predict(const Batch& batch, int64_t index) {
  const auto step = [&](const Batch& piece, size_t replica) {
    const Batch there = on_device(*modules_[replica], piece, replica, index);
    const Autocast autocast = runtime_.autocast();
    const std::optional<NearWeights> watch = near_weights();
    return in_hook(place("predict_step", index, replica, &there),
                   [&] { return modules_[replica]->predict_step(there, index); });
  };
  if (count() == 1) return {{step(batch, 0), batch.batch_size()}};
  const BatchPieces pieces = cut_for_replicas(batch);
  std::vector<std::pair<Output, int64_t>> outputs(pieces.sizes.size());
  run(pieces, nullptr, [&](size_t replica) {
    outputs[replica] = {step(pieces.batches[replica], replica), pieces.sizes[replica]};
  });
  return outputs;
}

void Replicas::evaluate(const Evaluation& what, MetricBoard& board, const Batch& batch, int64_t index) {
  const auto step = [&](const Batch& piece, size_t replica) {
    const Batch there = on_device(*modules_[replica], piece, replica, index);
    const Autocast autocast = runtime_.autocast();
    const std::optional<NearWeights> watch = near_weights();
    in_hook(place(what.step_name, index, replica, &there), [&] { (modules_[replica]->*what.step)(there, index); });
    return StepAccess::take_for_step_end(*modules_[replica]);
  };
  std::vector<Output> outputs;
  if (count() == 1) {
    outputs.push_back(step(batch, 0));
  } else {
    const BatchPieces pieces = cut_for_replicas(batch);
    outputs.resize(pieces.sizes.size());
    run(pieces, &board, [&](size_t replica) { outputs[replica] = step(pieces.batches[replica], replica); });
  }
  const Output list = gather(outputs).list;
  const Autocast autocast = runtime_.autocast();
  const std::optional<NearWeights> watch = near_weights();
  in_hook(place(what.step_end_name, index), [&] { (module().*what.step_end)(list); });
}

}  // namespace cohort
