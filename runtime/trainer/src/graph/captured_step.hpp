// The step of a training with --graph: taken as it is at first, then captured once and replayed.
//
// A replay has the tensors of the capture: each batch is copied into those that it was captured with, and the loss and
// what the module has logged lie in the same memory each time. What the host has decided in the captured step stays: a
// replay is refused once that has changed. Batches of other sizes than the captured one are trained without it. Belongs
// to the thread of the loop, whose stream is not the device's default one (own_stream.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cohort/module.hpp>
#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>
#include <cohort/step_graph.hpp>

#include "metrics/metric_board.hpp"
#include "profile/profile.hpp"

namespace cohort {

class CapturedStep {
 public:
  /// Functions of the loop in which a step stands.
  struct Loop {
    /// Takes a whole step with a batch that lies on the device, from begin to step(), and returns its loss; votes in
    /// it, unless the step is captured.
    std::function<at::Tensor(const Batch&)> take;
    std::function<void()> vote;
  };
  enum class How { kTaken, kCaptured, kReplayed };
  struct Result {
    at::Tensor loss;
    How how;
    uint64_t bytes_sent = 0;  // by a replay, of which the runtime knows nothing
  };

  /// Captures after so many steps have been taken. Everything outlives the object; `profile` may be null.
  CapturedStep(Runtime& runtime, Module& module, StepDriver& session, Profile* profile, int64_t warm_up);

  /// Takes, captures or replays a step; one that is captured is replayed at once. What the module logs comes on the
  /// board, if there is one. `is_last` of the epoch's batches: with several ranks only that one may have other sizes.
  Result run(const Batch& there, bool is_last, MetricBoard* board, const Loop& loop);
  bool is_capturing() const { return is_capturing_; }

 private:
  /// Values that the host has put into the captured step: a replay repeats them.
  struct Decided {
    std::vector<const void*> places;  // of weights and buffers
    std::vector<double> settings;     // of the optimizer
    std::vector<bool> modes;          // of submodules: training or not
    std::vector<bool> trained;        // by parameter
  };

  Runtime& runtime_;
  Module& module_;
  StepDriver& session_;
  Profile* const profile_;
  int64_t steps_left_;  // before the capture
  std::vector<at::Tensor> parameters_, buffers_;
  std::unique_ptr<StepGraph> graph_;  // null: not captured
  std::string sizes_;                 // of the batch before, or of the captured one
  Batch fixed_;                       // the batch of the graph
  Decided decided_;
  at::Tensor loss_;
  std::vector<MetricBoard::Captured> logged_;
  uint64_t bytes_sent_ = 0;
  bool is_capturing_ = false;

  bool can_capture(const std::string& sizes);
  bool can_replay(const std::string& sizes, bool is_last) const;
  void capture(const Batch& there, const Loop& loop);
  void replay(const Batch& there, MetricBoard* board);
  Decided decided() const;
  void check_decided() const;
};

}  // namespace cohort
