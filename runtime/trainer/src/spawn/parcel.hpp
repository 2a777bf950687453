// What a forked rank brings back, as tensors and texts by name.
//
// Both sides are one program at one moment: nothing is checked but what hooks can have changed.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/log.hpp>
#include <cohort/metrics.hpp>
#include <cohort/module.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>

#include "metrics/rank_report.hpp"
#include "spawn/forked_ranks.hpp"

namespace cohort {

/// Of every rank its figures; of rank 0 also the record and the default generator.
Parcel pack_run(const Runtime& runtime, const RunRecord& record);
void unpack_run(const std::vector<Parcel>& parcels, RunRecord& record);

/// Buffers, which steps of an evaluation may change.
void pack_buffers(Parcel& parcel, const Module& module);
void unpack_buffers(const Parcel& parcel, Module& module, host::Log& log);

/// Weights, buffers, what trains, how far it is, optimizers.
void pack_training(Parcel& parcel, Module& module, const Optimizers& optimizers, const StopReason& stop);
/// Copies into the tensors that module and optimizers have. Throws UserError, before anything has changed, where the
/// rank's module has come to have other tensors. An optimizer of the user's own that cannot be saved stays as it is,
/// with a warning.
StopReason unpack_training(const Parcel& parcel, Module& module, const Optimizers& optimizers, host::Log& log);

void pack_metrics(Parcel& parcel, const std::string& name, const Metrics& metrics);
Metrics unpack_metrics(const Parcel& parcel, const std::string& name);

}  // namespace cohort
