// A step of the training loop: one or several micro-batches, each through every phase, a batch of a module that steps
// by hand, or with --graph a batch of the step that was captured. Each ends with a vote of the ranks.
#include <array>
#include <cmath>

#include <cohort/host/error.hpp>

#include "loop/fit_loop.hpp"
#include "metrics/scalar.hpp"
#include "module/step_access.hpp"

namespace cohort {

void FitLoop::take_step(int64_t window) {
  const TimedStep timed(profile_);
  const int64_t batches_before = batches_;
  if (window > 0) {
    {
      std::optional<NoSync> no_sync;
      if (window > 1) no_sync.emplace(session_);
      for (int64_t i = 1; i < window; ++i) run_micro_batch(window, /*last=*/false);
    }
    run_micro_batch(window, /*last=*/true);
    replicas_.check_registered();
  } else {
    board_.begin_batch(0);  // what hooks log has no weight in the means
    run_phases(nullptr, window, /*last=*/true);
  }
  if (joins()) count_with_others(batches_before, window);
  note_step(votes_);
  index_.reset();
}

// Counts the ranks that have a batch for the coming step. Collective.
void FitLoop::count_active_ranks() {
  std::array<double, 1> ranks{available(1) > 0 ? 1.0 : 0.0};
  runtime_.all_reduce_sum(ranks);
  active_ranks_ = ranks[0];
}

// A rank that goes on has had a whole window; the last step of the epoch may be shorter on all ranks.
void FitLoop::count_with_others(int64_t batches_before, int64_t window) {
  count_active_ranks();
  std::array<double, 1> longest{static_cast<double>(window)};
  if (active_ranks_ == 0) runtime_.all_reduce_max(longest);
  batches_ = batches_before + (active_ranks_ > 0 ? limits_.accumulate : static_cast<int64_t>(longest[0]));
}

void FitLoop::run_micro_batch(int64_t window, bool last) {
  const Batch batch = next_batch();
  const int64_t samples = batch.batch_size();
  index_ = batches_;
  batch_ = &batch;
  board_.begin_batch(samples);
  call("on_train_batch_start", &Callback::on_train_batch_start, batch);
  if (graph_) {
    run_by_graph(batch);
  } else if (module_.automatic_optimization()) {
    run_phases(&batch, window, last);
  } else {
    run_by_hand(batch);
  }
  ++batches_;
  record_.samples += static_cast<uint64_t>(samples);
  call("on_train_batch_end", &Callback::on_train_batch_end, batch);
  batch_ = nullptr;
}

void FitLoop::run_phases(const Batch* batch, int64_t window, bool last) {
  votes_ = {};
  const double ranks_for_each = joins() ? runtime_.world_size() / active_ranks_ : 1.0;
  for (size_t phase = 0; phase < session_.optimizers().size(); ++phase) {
    detail::StepAccess::set_phase(module_, phase);
    session_.begin(phase);
    if (batch) {
      MetricBoard* const board = limits_.report ? &board_ : nullptr;
      const double share = ranks_for_each / static_cast<double>(window);
      note_loss(replicas_.train(session_, board, *batch, batches_, share), session_.steps() + 1);
    }
    if (last) vote();
    wait_for_gradients();
    call("on_after_backward", &Callback::on_after_backward);
    if (last) step_optimizer();
  }
}

void FitLoop::wait_for_gradients() {
  const Timed timed(profile_, Profile::kGradients);
  const StepPart part(place_of("the averaging of gradients"));
  session_.end_backward();
}

void FitLoop::step_optimizer() {
  const Timed timed(profile_, Profile::kOptimizer);
  const StepPart part(place_of("the optimizer's step"));
  votes_ = votes_ | session_.step();
}

void FitLoop::run_by_hand(const Batch& batch) {
  session_.begin_all();
  replicas_.train_by_hand(batch, batches_);
  vote();
  votes_ = session_.exchange_votes();
}

void FitLoop::vote() {
  ask_callbacks();
  session_.vote({.stop = !wish_.is_none(), .out_of_data = available(1) == 0});
}

void FitLoop::ask_callbacks() {
  call("on_vote", &Callback::on_vote);
}

void FitLoop::note_loss(const at::Tensor& loss, uint64_t step) {
  if (session_.loss_scale()) return;  // a step whose gradients are not finite is skipped
  // A number that lies on the CPU costs nothing to look at; a device is asked at the logging interval only.
  auto value = value_at_hand(loss);
  const bool is_logged = step % static_cast<uint64_t>(limits_.log_every_n_steps) == 0;
  if (!value && is_logged) value = loss.detach().to(at::kCPU, at::kDouble).item<double>();
  if (is_logged && value && session_.optimizers().size() == 1) loss_ = value;
  if (!value || std::isfinite(*value)) return;
  stop({.severity = StopReason::Severity::kFailure,
        .exit_reason = "loss_not_finite",
        .text = "the training loss is not finite at step " + std::to_string(step) + " on rank " +
                std::to_string(runtime_.rank()) +
                "; lower the learning rate, or look for a division by zero or a logarithm of zero"});
}

void FitLoop::require_equal_batches() const {
  if (runtime_.world_size() == 1 || has_equal_ranks()) return;
  throw UserError(
      "--graph: ranks capture and replay together, and with a stream, a sampler of one's own or data of other lengths "
      "they may have batches of other sizes; give all ranks a dataset of the same length, or leave --graph out");
}

// One batch and one optimizer: require_graph has seen to it.
void FitLoop::run_by_graph(const Batch& batch) {
  if (kept_) kept_->weights_may_change();  // a replay calls no hooks
  const uint64_t step = session_.steps() + 1;
  const auto take = [&](const Batch& there) {
    session_.begin(0);
    at::Tensor loss = replicas_.train_there(session_, there, batches_);
    if (!graph_->is_capturing()) {
      note_loss(loss, step);
      vote();
    }
    wait_for_gradients();
    call("on_after_backward", &Callback::on_after_backward);
    votes_ = {};
    step_optimizer();
    return loss;
  };
  const CapturedStep::Loop loop{take, [this] { vote(); }};
  const Batch there = replicas_.transfer(batch, batches_);
  const bool is_last = source_->available(1) == 0;
  const auto [loss, how, bytes_sent] = graph_->run(there, is_last, limits_.report ? &board_ : nullptr, loop);
  if (how == CapturedStep::How::kTaken) return callbacks_.require_empty_moments();
  record_.bytes_sent += bytes_sent;
  note_loss(loss, step);
  if (how == CapturedStep::How::kCaptured) return;
  vote();
  votes_ = session_.count_replayed_step();
}

}  // namespace cohort
