#include "loop/epoch.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <cohort/host/error.hpp>
#include <cohort/rank_noise.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/fit_checkpoints.hpp"
#include "checkpoint/generators.hpp"

namespace cohort {

std::optional<uint64_t> Epoch::total_steps() const {
  return planned_steps(fit_.limits, earlier_.samples == 0 ? length_ : whole_length_, more_steps_);
}

LoopPlace Epoch::place() const {
  return {.fit = fit_.fit_number(),
          .epoch = number_,
          .batches = batches_,
          .earlier_batches = earlier_.batches,
          .earlier_samples = earlier_.samples,
          .more_steps = more_steps_,
          .batch_size = train_.stream ? 1 : train_.batch_size,
          .samples = train_.dataset ? train_.dataset->size() : -1,
          .seed = fit_.options().seed,
          .shuffle = train_.shuffle};
}

void Epoch::plan() {
  length_ = whole_length_ = planned_batches(train_, fit_.runtime.world_size(), fit_.limits.train);
}

void Epoch::resume(const LoadedCheckpoint& checkpoint, const Joining& joining) {
  all_or_none(fit_.runtime, [&] {  // the manifest tells of rank 0's data
    if (fit_.runtime.is_first()) check_same_data(*checkpoint.manifest.loop, place(), checkpoint.path);
  });
  divide_what_is_left(checkpoint, joining);
  number_ = checkpoint.manifest.loop->epoch;
  batches_ = checkpoint.manifest.loop->batches;
}

// Ranks take turns in the epoch's order of samples. So the ranks of the checkpoint have trained on the beginning of
// that order, and the ranks of this run take turns in the rest.
void Epoch::divide_what_is_left(const LoadedCheckpoint& checkpoint, const Joining& joining) {
  const LoopPlace& saved = *checkpoint.manifest.loop;
  const int ranks = checkpoint.manifest.world_size;
  more_steps_ = saved.more_steps;
  if (ranks == fit_.runtime.world_size()) {
    earlier_ = {saved.earlier_batches, saved.earlier_samples};
    return;
  }
  if (saved.batches > 0) earlier_ = part_before(checkpoint, joining);
  more_steps_ += steps_before(saved.epoch, ranks) - steps_before(saved.epoch, fit_.runtime.world_size());
}

EarlierPart Epoch::part_before(const LoadedCheckpoint& checkpoint, const Joining& joining) const {
  const LoopPlace& saved = *checkpoint.manifest.loop;
  const int ranks = checkpoint.manifest.world_size;
  if (!joining.has_equal_counts()) {
    const std::string number = std::to_string(ranks);
    throw UserError(checkpoint.path.string() + " was taken in the middle of epoch " + std::to_string(saved.epoch) +
                    " of " + number + " rank(s), and which samples are left to another number of ranks is known only " +
                    "for a dataset that all of them share, without a sampler of its own: resume with " + number +
                    ", or from a checkpoint at the end of an epoch");
  }
  const int64_t most = saved.samples / saved.batch_size + 1;  // a manifest may claim any number
  const int64_t samples = std::min(saved.batches - saved.earlier_batches, most) * saved.batch_size * ranks;
  return {saved.batches, std::min(saved.earlier_samples + samples, saved.samples)};
}

// Returns the number of steps after which `ranks` would be at this place of the data in this epoch.
int64_t Epoch::steps_before(int64_t epoch, int ranks) const {
  const int64_t window = fit_.limits.accumulate;
  const auto steps_of = [&](int64_t batches) { return (batches + window - 1) / window; };
  const int64_t whole = planned_batches(train_, ranks, fit_.limits.train).value_or(0);
  const int64_t end = planned_batches(train_, ranks, fit_.limits.train, earlier_).value_or(0);
  return (epoch + 1) * steps_of(whole) - steps_of(end - earlier_.batches);
}

void Epoch::open(Joining& joining, const LoadedCheckpoint* resumed) {
  const Timed timed(fit_.profile, Profile::kData);
  Runtime& runtime = fit_.runtime;
  const Shard shard{runtime.rank(), runtime.world_size(), seed_of_fit(fit_.options().seed, fit_.fit_number()), number_};
  batches_ = resumed ? resumed->manifest.loop->batches : 0;
  const PassBegin begin{batches_, earlier_, resumed ? resumed->state().in(kStreamSection).values() : CallbackState()};
  source_ =
      open_batches(train_, shard, Purpose::kTraining, fit_.limits.train, "training data", begin, runtime.device());
  const bool is_alike = fit_.options().rank_noise == RankNoise::kAlike;
  const bool is_known = resumed && (is_alike || runtime.rank() < resumed->manifest.world_size);
  const at::Tensor* const before = is_known ? resumed->state().find(kGeneratorBeforeAheadName) : nullptr;
  if (before) set_generator_state(*before, resumed->path.string());  // what was read ahead is read again
  // Only a vote in every step ends an epoch with the first rank that runs out of batches. If all have equally many, the
  // end needs no vote, and other votes can wait for the step that is logged.
  fit_.session.vote_every(joining.has_equal_counts() ? static_cast<uint64_t>(fit_.limits.log_every_n_steps) : 1);
  const int64_t own = source_->available(train_.stream ? 1 : std::numeric_limits<int64_t>::max());
  source_->settle();
  const int64_t left = left_to_all(own, joining);
  is_out_of_data_ = left == 0;
  length_ = train_.stream ? std::nullopt : std::optional(batches_ + left);
}

void Epoch::save(const StateWriter& state) const {
  if (!source_) return;
  if (at::Tensor before = source_->generator_before_ahead(); before.defined()) {
    state.put(kGeneratorBeforeAheadName, std::move(before));
  }
  state.in(kStreamSection).put_all(source_->stream_state().tensors());
}

void Epoch::require_batches(const Joining& joining) const {
  if (batches_ > 0 || !is_out_of_data_ || fit_.limits.train.count == 0) return;
  throw UserError(
      "the training data gave no batch in epoch " + std::to_string(number_) +
      (joining.joins() ? " on any rank; one of them needs one" : " on at least one rank; every rank needs one") +
      " in each epoch");
}

// Returns the number of batches up to the end of the epoch on all ranks; of a stream at most one. Collective if the
// ranks may differ.
int64_t Epoch::left_to_all(int64_t own, Joining& joining) {
  if (joining.has_equal_counts()) return own;
  std::array<double, 2> most_and_fewest{static_cast<double>(own), -static_cast<double>(own)};
  fit_.runtime.all_reduce_max(most_and_fewest);
  if (joining.joins()) joining.count_active(available(1) > 0);
  return static_cast<int64_t>(joining.joins() ? most_and_fewest[0] : -most_and_fewest[1]);
}

int64_t Epoch::available(int64_t wanted) {
  const Timed timed(train_.stream ? fit_.profile : nullptr, Profile::kData);
  return source_->available(wanted);
}

Batch Epoch::next() {
  const Timed timed(fit_.profile, Profile::kData);
  return source_->next();
}

void Epoch::end_step(int64_t batches, bool is_out_of_data) {
  batches_ = batches;
  is_out_of_data_ = is_out_of_data;
}

void Epoch::begin_next() {
  ++number_;
  batches_ = 0;
  earlier_ = {};
  source_.reset();
}

void Epoch::settle() {
  if (source_) source_->settle();
}

}  // namespace cohort
