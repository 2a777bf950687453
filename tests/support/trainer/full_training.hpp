// A small training with everything that a checkpoint keeps.
#pragma once

#include "small_training.hpp"

namespace cohort::testing {

/// Trains up to the end of an epoch, from the newest checkpoint in the folder if there is one. Checkpoints are in
/// `checkpoints`, tables in `logs`. Returns the digest of the weights. Throws what the training throws.
inline std::string train_in_full(const fs::path& folder, int64_t epochs) {
  Training run([&](Options& o) {
    o.max_epochs = epochs;
    o.checkpoint_dir = folder / "checkpoints";
    o.log_dir = folder / "logs";
    o.loggers = {Spec("csv"), Spec("json")};
    o.resume = "auto";
    o.ema = 0.9;
    o.monitor = host::parse_metric_spec("val", "--monitor");
    o.early_stopping = host::parse_metric_spec("val,patience=9", "--early-stopping");
  });
  run.net.measures = true;
  run.fit({});
  return weights_digest(run.net);
}

}  // namespace cohort::testing
