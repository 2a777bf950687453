// The state of the training loop for checkpoints, and how a loop continues from one.
#include <cohort/rank_noise.hpp>

#include "checkpoint/generators.hpp"
#include "loop/fit_loop.hpp"
#include "loop/resume_settings.hpp"
#include "metrics/epoch_state.hpp"

namespace cohort {

void FitLoop::begin_where_resumed() {
  epoch_.resume(*resumed_, joining_);
  resume_settings();
  apply_checkpoint(*resumed_, context_.session);
  seed_added_rank();
  resume_strategy(*resumed_, context_.session);
  awaited_.skip();
  for (const std::string& sentence : context_.callbacks.restore(resumed_->state())) {
    if (context_.runtime.is_first()) context_.runtime.log().warning(sentence);
  }
  context_.record.steps_before += resumed_->manifest.step;
  context_.record.epochs += epoch();
  for (const auto& [name, value] : resumed_->state().in(kLatestSection).metrics())
    context_.record.metrics[name] = value;
  stopping_.heed_end_of_resumed(resumed_->manifest.end, epoch());
  if (batch() == 0) resumed_.reset();
}

void FitLoop::resume_settings() {
  StepDriver& session = context_.session;
  std::vector<bool> scheduled;
  for (size_t i = 0; i < session.optimizers().size(); ++i) {
    scheduled.push_back(!session.optimizers().schedules(i).empty());
  }
  const auto lines =
      settle_settings(context_.options().resume_settings, optimizer_settings(session), scheduled, *resumed_);
  for (const std::string& line : lines) {
    if (context_.runtime.is_first()) context_.runtime.log().info(line);
  }
}

// The checkpoint has no random numbers of a rank that was added. If all ranks draw alike it has those of another one.
void FitLoop::seed_added_rank() {
  const bool is_apart = context_.options().rank_noise == RankNoise::kApart;
  if (!is_apart || context_.runtime.rank() < resumed_->manifest.world_size) return;
  seed_model(context_.runtime, {static_cast<uint64_t>(context_.fit_number()), resumed_->manifest.step});
}

// In the middle of an epoch. What its start has drawn from the generator, or set in the optimizer and in callbacks, has
// happened before.
void FitLoop::continue_epoch() {
  apply_checkpoint(*resumed_, context_.session);
  seed_added_rank();
  const StateReader saved = resumed_->state();
  context_.callbacks.restore(saved);
  reporting_.resume(saved);
  validation_.set_means(saved.in(kValidationSection).metrics());
  const bool validation_due = resumed_->manifest.loop->validation_due;
  resumed_.reset();
  if (validation_due && validation_.is_on()) validate_within_epoch();
  if (stopping_.is_at_step_limit()) stopping_.end();
}

LoopState FitLoop::state(bool validation_due) {
  LoopState state = state_without_records();
  state.place.validation_due = validation_due;
  save_records(StateWriter(state.entries), reporting_.board().records());
  return state;
}

LoopState FitLoop::state_without_records() {
  epoch_.settle();
  LoopState state{epoch_.place(), stopping_.training_end(epoch()), optimizer_settings(context_.session)};
  const StateWriter writer(state.entries);
  save_generators(writer, context_.runtime.devices());
  epoch_.save(writer);
  reporting_.save(writer);
  writer.in(kValidationSection).put_all(validation_.means());
  writer.in(kLatestSection).put_all(context_.record.metrics);
  context_.callbacks.save(writer, context_.runtime.is_first());
  return state;
}

void FitLoop::keep_step() {
  if (snapshots_.keeps_steps()) snapshots_.keep(state_without_records(), reporting_.board().copy());
}

}  // namespace cohort
