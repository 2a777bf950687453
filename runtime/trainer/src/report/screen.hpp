// Shows a training and an evaluation while they run, on rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <cohort/callback.hpp>
#include <cohort/host/log.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// For rank 0.
std::shared_ptr<Callback> screen(Runtime& runtime);

/// The progress of one pass over evaluation data. On other ranks nothing is shown.
class EvaluationProgress {
 public:
  /// `batches` of this rank, unknown for a stream.
  EvaluationProgress(Runtime& runtime, std::string name, std::optional<int64_t> batches);
  ~EvaluationProgress();
  EvaluationProgress(const EvaluationProgress&) = delete;
  EvaluationProgress& operator=(const EvaluationProgress&) = delete;

  /// Call after each batch.
  void show(int64_t done);

 private:
  host::Log& log_;
  bool is_shown_;
  std::string name_;
  int64_t batches_;
  std::chrono::steady_clock::time_point begun_, next_;
};

}  // namespace cohort
