// Metrics as people read them.
#pragma once

#include <string>

#include <cohort/metrics.hpp>

namespace cohort {

/// "train_loss 0.1234, val_acc 0.9713"
std::string metrics_text(const Metrics& metrics);

/// "epoch 3: train_loss 0.1234, val_acc 0.9713 (1.9 s)"
std::string epoch_line(int64_t epoch, const Metrics& metrics, double seconds);

/// A table of two columns, the first headed `title`, with a newline at its end.
std::string results_table(const std::string& title, const Metrics& metrics);

}  // namespace cohort
