#include "loop/validation.hpp"

#include <cohort/module.hpp>

#include "checkpoint/generators.hpp"
#include "data/batch_source.hpp"
#include "failure/failure.hpp"
#include "loop/evaluation.hpp"

namespace cohort {

Validation::Validation(const FitContext& fit, const FitHooks& hooks, std::vector<Loader> loaders)
    : fit_(fit),
      hooks_(hooks),
      loaders_(std::move(loaders)),
      is_on_(fit.limits.validate && !loaders_.empty() && fit.limits.validation.count != 0) {}

bool Validation::is_left_out_by_flag() const {
  return fit_.limits.validate && !loaders_.empty() && fit_.limits.validation.count == 0;
}

void Validation::check_data() const {
  if (!is_on_) return;
  const Shard shard{fit_.runtime.rank(), fit_.runtime.world_size(), fit_.options().seed, 0};
  for (size_t i = 0; i < loaders_.size(); ++i) {
    count_batches(loaders_[i], shard, Purpose::kEvaluation, fit_.limits.validation,
                  name_of_loader("validation data", loaders_, i));
  }
}

bool Validation::is_validated(int64_t epoch) const {
  return is_on_ && (epoch + 1) % fit_.limits.validate_every_n_epochs == 0;
}

void Validation::begin_epoch(int64_t epoch, std::optional<int64_t> length) {
  interval_ = is_validated(epoch) ? validation_interval(fit_.limits.val_check_interval, length) : std::nullopt;
}

bool Validation::is_due_between(int64_t before, int64_t now) const {
  return interval_ && before / *interval_ != now / *interval_;
}

EvaluationPass Validation::pass(const BatchLimit& limit, const Stopping& stopping) const {
  return {.what = Replicas::kValidation,
          .loaders = loaders_,
          .limit = limit,
          .name = "validation data",
          .is_optional = true,
          .interrupted = [this, &stopping] {
            hooks_.ask();
            return stopping.wish().is_abrupt();
          }};
}

MergedReport Validation::evaluate(MetricBoard& board, const Stopping& stopping) {
  fit_.session.pause_for_evaluation();
  const EvaluationPass whole = pass(fit_.limits.validation, stopping);
  const NamedTensors of_training = board.metrics().take();
  MergedReport merged;
  try {
    hooks_.call("on_validation_start", &Callback::on_validation_start);
    merged = cohort::evaluate(fit_.runtime, fit_.replicas, whole, [&] {
      hooks_.ask();
      return stopping.wish();
    });
    board.metrics().give_back(of_training);
  } catch (const std::exception&) {
    if (tells_of_lost_device()) throw;
    board.metrics().give_back(of_training);
    abandon();
    throw;
  }
  if (merged.lacks_step) leave_out();
  return merged;
}

// An exception of a callback must not hide why the validation has failed.
void Validation::abandon() const {
  try {
    hooks_.call("on_validation_abandoned", &Callback::on_validation_abandoned);
  } catch (const std::exception& another) {
    fit_.runtime.log().warning(another.what());
  }
}

MergedReport Validation::attempt(const BatchLimit& limit, const Stopping& stopping) {
  const auto begun = std::chrono::steady_clock::now();
  const Timed timed(fit_.profile, Profile::kValidation);
  const detail::GeneratorKeeper keeper;
  NamedTensors generators;
  save_generators(StateWriter(generators), fit_.runtime.devices());
  MergedReport merged =
      cohort::evaluate(fit_.runtime, fit_.replicas, pass(limit, stopping), [&] { return stopping.wish(); });
  if (merged.lacks_step && is_on_) leave_out();
  set_device_generator_states(fit_.runtime.devices(), index_of(generators), "this training");
  attempted_for_ += std::chrono::steady_clock::now() - begun;
  return merged;
}

// A DataModule may serve several modules, and some may have no validation_step.
void Validation::leave_out() {
  is_on_ = false;
  interval_.reset();
  if (!fit_.runtime.is_first()) return;
  fit_.runtime.log().warning("Validation is left out: there is validation data, but module '" + fit_.module.name() +
                             "' has no validation_step");
}

}  // namespace cohort
