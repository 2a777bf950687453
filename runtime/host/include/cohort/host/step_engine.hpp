// One optimizer step, seen from the gradients: buckets fill, are reduced, and the step ends when all of them are back.
//
// With overlap the lane reduces while backward goes on; without it the step thread does when backward is over. Results
// are the same. Belongs to one rank. All functions run on the step thread. Gradients are written by the caller (see
// ModelPort); the engine only knows when they are complete. After an exception the engine is ready for a new step, the
// lane is not.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/api/strategy.h>
#include <cohort/host/buckets.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/lane.hpp>
#include <cohort/host/model_port.hpp>
#include <cohort/host/votes.hpp>

namespace cohort::host {

class StepEngine {
 public:
  /// What the engine works with; everything outlives it. `lane` and `flags_comm` are null where nothing is
  /// communicated.
  struct Parts {
    HostObject& host;
    cohort_strategy* strategy;
    const Buckets& buckets;
    ModelPort& model;
    Lane* lane;
    cohort_comm* flags_comm;    ///< of the lane
    cohort_comm* control_comm;  ///< of the step thread
  };
  explicit StepEngine(const Parts& parts);
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  /// True where the strategy wants gradients of several ranks: then `gradient_ready` must be called for each of them.
  bool wants_gradients() const { return wants_gradients_; }

  /// Between steps: buckets were laid out anew.
  void layout_changed();
  /// Between steps. On at first.
  void set_overlap(bool overlap) { overlap_ = overlap; }

  /// A micro-batch begins; gradients are reduced in the last one of a step.
  void begin(bool last);
  /// This parameter's gradient is complete for this micro-batch and lies in its place.
  void gradient_ready(uint32_t parameter);
  /// Backward is over. In the last micro-batch: parameters that no backward of this step has reached are sent as zeros,
  /// and the call returns when all buckets and the votes are back.
  void end_backward();
  /// The optimizer step. Gradients are the mean over the ranks.
  void optimizer_step();
  /// Forgets a step that failed half-way.
  void abandon();

  /// What this rank says with the next end_backward.
  void vote(Votes votes) { own_votes_ = votes; }
  /// What any rank said with the last one.
  Votes votes() const { return agreed_votes_; }
  /// True where any rank's backward reached the parameter in the last step.
  bool is_used(uint32_t parameter) const;
  /// True where this rank's backward reached it.
  bool is_used_here(uint32_t parameter) const { return reached_[parameter] != 0; }
  /// Optimizer steps done.
  uint64_t steps() const { return step_.step; }
  /// Parameters in the order in which the last step's gradients were complete; those that backward did not reach last.
  std::span<const uint32_t> arrival_order() const { return arrival_order_; }
  /// Of the last step, from its first begin.
  std::chrono::nanoseconds step_time() const { return step_time_; }
  /// The next step follows this many of an earlier run.
  void resume_after(uint64_t steps) { step_.step = steps; }

 private:
  static constexpr uint32_t kNoBucket = ~0u;

  Parts parts_;
  bool wants_gradients_;
  std::vector<uint32_t> bucket_of_;   // by parameter; kNoBucket: in none
  std::vector<uint64_t> pending_;     // by bucket: parameters whose gradient is not complete yet
  std::vector<uint8_t> complete_;     // by parameter, in this backward
  std::vector<uint8_t> reached_;      // by parameter, in any micro-batch of this step
  std::vector<uint64_t> flag_words_;  // votes, then one bit per parameter
  std::vector<uint32_t> arrival_order_;
  std::vector<FlightRecorder::Purpose> purposes_;  // by bucket
  const FlightRecorder::Purpose votes_ = std::make_shared<const std::string>("flags of the step");
  size_t next_bucket_ = 0;
  bool overlap_ = true;
  std::chrono::steady_clock::time_point step_begun_;
  std::chrono::nanoseconds step_time_{0};
  cohort_step step_{};
  bool step_open_ = false;
  Votes own_votes_, agreed_votes_;

  void begin_window();
  void begin_reduction();
  void complete(uint32_t parameter);
  void reduce(size_t bucket);
  void finish_reduction();
  void collect_flags();
  void exchange_flags();
  void exchange_votes();
  void read_votes(uint64_t word);
  uint64_t vote_word() const;
  void check(cohort_status status, const char* slot);
};

}  // namespace cohort::host
