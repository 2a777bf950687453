#include "spawn/forked_loops.hpp"

#include <algorithm>
#include <iterator>

#include <cohort/trainer.hpp>

#include "spawn/forked_ranks.hpp"
#include "spawn/parcel.hpp"
#include "state/state_tree.hpp"

namespace cohort {
namespace {

/// The record of a process that is forked is rank 0's.
void begin_as_rank(RunRecord& record, int rank) {
  if (record.forked.figures.empty()) return;
  const RankFigures& before = record.forked.figures[static_cast<size_t>(rank)];
  record.samples = before.samples;
  record.bytes_sent = before.bytes_sent;
  record.weights_sha256 = before.weights_sha256;
}

/// Gives the callbacks the state of rank 0's.
void restore(const CallbackList& callbacks, const Parcel& parcel) {
  const TensorIndex tensors = index_of(parcel.tensors);
  callbacks.restore(StateReader(tensors, "rank 0"));
}

/// Packs what a pass without training leaves of the module: buffers, and what the module saves itself.
void pack_pass(Parcel& parcel, Module& module) {
  pack_buffers(parcel, module);
  CallbackList(module, {}).save(StateWriter(parcel.tensors), /*is_first=*/true);
}

void unpack_pass(const std::vector<Parcel>& parcels, const ForkedPass& pass) {
  unpack_run(parcels, pass.record);
  unpack_buffers(parcels[0], pass.module, pass.runtime.log());
  restore(CallbackList(pass.module, {}), parcels[0]);
}

}  // namespace

StopReason fit_in_forks(const ForkedFit& fit, const std::function<StopReason()>& train) {
  const Harvest harvest = run_in_forked_ranks(fit.runtime, [&] {
    begin_as_rank(fit.record, fit.runtime.rank());
    const StopReason stop = train();
    Parcel parcel = pack_run(fit.runtime, fit.record);
    if (fit.runtime.is_first()) {
      pack_training(parcel, fit.module, fit.optimizers, stop);
      fit.callbacks.save(StateWriter(parcel.tensors), /*is_first=*/true);
    }
    return parcel;
  });
  StopReason stop = unpack_training(harvest.parcels[0], fit.module, fit.optimizers, fit.runtime.log());
  unpack_run(harvest.parcels, fit.record);
  restore(fit.callbacks, harvest.parcels[0]);
  if (stop.is_none() && harvest.stop_signal != 0) stop = stopped_by(harvest.stop_signal, 0);
  return stop;
}

std::vector<Parcel> predict_in_forks(const ForkedPass& pass, const std::function<Parcel()>& predict) {
  Harvest harvest = run_in_forked_ranks(pass.runtime, [&] {
    begin_as_rank(pass.record, pass.runtime.rank());
    Parcel parcel = predict();
    Parcel run = pack_run(pass.runtime, pass.record);
    if (pass.runtime.is_first()) pack_pass(run, pass.module);
    parcel.metadata.merge(run.metadata);
    std::ranges::move(run.tensors, std::back_inserter(parcel.tensors));
    return parcel;
  });
  unpack_pass(harvest.parcels, pass);
  if (harvest.stop_signal != 0) throw Interrupted{harvest.stop_signal};
  return std::move(harvest.parcels);
}

Metrics evaluate_in_forks(const ForkedPass& pass, const std::function<Metrics()>& evaluate) {
  const Harvest harvest = run_in_forked_ranks(pass.runtime, [&] {
    begin_as_rank(pass.record, pass.runtime.rank());
    const Metrics means = evaluate();
    Parcel parcel = pack_run(pass.runtime, pass.record);
    if (pass.runtime.is_first()) {
      pack_metrics(parcel, "means", means);
      pack_pass(parcel, pass.module);
    }
    return parcel;
  });
  unpack_pass(harvest.parcels, pass);
  if (harvest.stop_signal != 0) throw Interrupted{harvest.stop_signal};
  return unpack_metrics(harvest.parcels[0], "means");
}

}  // namespace cohort
