// The Trainer's loops in ranks that are forked for them.
//
// See forked_ranks.hpp for what is thrown. Where something is thrown, module, optimizers and record are as before.
#pragma once

#include <functional>
#include <vector>

#include <cohort/metrics.hpp>
#include <cohort/module.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>

#include "callbacks/callback_list.hpp"
#include "metrics/rank_report.hpp"
#include "spawn/forked_ranks.hpp"

namespace cohort {

struct ForkedFit {
  Runtime& runtime;
  RunRecord& record;
  Module& module;
  const Optimizers& optimizers;
  const CallbackList& callbacks;
};

/// Runs `train` in every rank; afterwards module, optimizers, callbacks, record and the default generator are as
/// rank 0 left them.
/// Gives why training ended.
StopReason fit_in_forks(const ForkedFit& fit, const std::function<StopReason()>& train);

/// An evaluation or a prediction.
struct ForkedPass {
  Runtime& runtime;
  RunRecord& record;
  Module& module;
};

/// Runs `evaluate` in every rank; gives rank 0's result. Record and default generator are as rank 0 left them.
Metrics evaluate_in_forks(const ForkedPass& pass, const std::function<Metrics()>& evaluate);

/// Runs `predict` in every rank; returns what each has returned. The default generator is as rank 0 left it.
std::vector<Parcel> predict_in_forks(const ForkedPass& pass, const std::function<Parcel()>& predict);

}  // namespace cohort
