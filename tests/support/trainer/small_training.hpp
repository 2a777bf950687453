// A small training with callbacks, in one process and in stretches that resume.
#pragma once

#include <memory>

#include "training_job.hpp"

namespace cohort::testing {

/// Trains a Learner on six numbers, two steps in an epoch, with these callbacks.
struct Training {
  ScriptedRun scripted;
  Learner net;
  Numbers data{6};
  RunRecord record;
  Metrics metrics;

  explicit Training(const std::function<void(Options&)>& options = [](Options&) {})
      : scripted([&](Script& s) {
          torch::manual_seed(5);  // before the module is made
          s.options.max_epochs = 1;
          s.options.log_every_n_steps = 1;
          options(s.options);
        }) {}
  void fit(std::vector<std::shared_ptr<Callback>> callbacks) {
    metrics = Trainer(scripted.runtime(), record, {.callbacks = std::move(callbacks)}).fit(net, data);
  }
};

/// Trains for `epochs` with checkpoints in the folder, from where an earlier call has ended if `resumes`.
struct Stretch {
  fs::path folder;
  std::function<void(Options&)> options = [](Options&) {};

  std::unique_ptr<Training> operator()(int64_t epochs, bool resumes,
                                       std::vector<std::shared_ptr<Callback>> callbacks) const {
    auto run = std::make_unique<Training>([&](Options& o) {
      o.max_epochs = epochs;
      o.checkpoint_dir = folder;
      if (resumes) o.resume = "auto";
      options(o);
    });
    run->fit(std::move(callbacks));
    return run;
  }
};

}  // namespace cohort::testing
