// One optimizer step, seen from the gradients: buckets fill, are reduced, and the step ends when all of them are back.
//
// With overlap the lane reduces while backward goes on; without it the step thread does when backward is over. Results
// are the same. Several optimizers are phases: each has its own parameters, buckets and steps; between begin and
// end_backward one phase is current. Belongs to one rank. All functions run on the step thread, but for gradient_ready,
// gradients_complete and abandon. Gradients are written by the caller (see ModelPort); the engine only knows when they
// are complete. After an exception the engine is ready for a new step, the lane is not.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/api/kernels.h>
#include <cohort/api/strategy.h>
#include <cohort/host/buckets.hpp>
#include <cohort/host/gradient_streams.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/lane.hpp>
#include <cohort/host/model_port.hpp>
#include <cohort/host/strategy_layers.hpp>
#include <cohort/host/votes.hpp>

namespace cohort::host {

class StepEngine {
 public:
  /// The parts that the engine works with; all outlive it. The communicators are null without another rank.
  struct Parts {
    HostObject& host;
    cohort_strategy* strategy;
    Buckets& buckets;
    ModelPort& model;
    const cohort_kernels_core_1& kernels;  ///< of the model's device
    Lane* lane;
    cohort_comm* flags_comm;    ///< of the lane
    cohort_comm* control_comm;  ///< of the step thread
    RankDevices devices{};
    const StrategyLayers* layers = nullptr;  ///< null: none drops gradients
  };
  explicit StepEngine(const Parts& parts);
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  /// Returns whether the layout has gradients: then `gradient_ready` must be called for each of them.
  bool wants_gradients() const { return wants_gradients_; }

  /// Returns whether a layer reads ModelPort::loss.
  bool reads_loss() const { return parts_.layers && parts_.layers->read_the_loss(); }

  /// Between steps: buckets were laid out anew, maybe without gradients, or with them again.
  void layout_changed();
  /// Between steps. On at first.
  void set_overlap(bool overlap) { overlap_ = overlap; }

  /// Begins a micro-batch of this phase; gradients are reduced in the last one of a step. `in_order`: each training
  /// step runs all phases, in their order; else the loop runs them as it likes.
  void begin(bool last, uint32_t phase = 0, bool in_order = false);
  /// This parameter's gradient, of the current phase, is complete for this micro-batch and lies in its place.
  void gradient_ready(uint32_t parameter, uint32_t replica = 0);
  /// Takes the gradients of these parameters of replica 0 as complete: no other backward of this partial micro-batch
  /// reaches them. Any thread.
  void gradients_complete(std::span<const uint32_t> parameters);
  /// Backward is over. In the last micro-batch: parameters that no backward of this step has reached are sent as zeros,
  /// and the call returns when all buckets and the votes are back.
  void end_backward();
  /// Makes a phase that has begun the current one, for its backward.
  void select(uint32_t phase);
  bool has_begun(uint32_t phase) const { return phases_[phase].open; }
  /// Returns whether a phase has run a backward and not its optimizer yet.
  bool is_in_step() const {
    return std::ranges::any_of(phases_, [](const Phase& phase) { return phase.open && phase.micro > 0; });
  }
  /// True where the current phase's gradients are reduced in this micro-batch.
  bool is_last() const { return phases_[phase_].flags & COHORT_STEP_LAST; }
  /// While on, gradients only add up: another backward reaches the same parameters before end_backward.
  void set_partial(bool partial) { partial_ = partial; }
  /// Keeps what take_back needs, until end_backward. With `holds`, end_backward sends the gradients, and nothing does
  /// before it.
  void begin_attempt(bool holds);
  /// Returns to the state when the attempt began, after a backward that failed and was abandoned. Returns false, and
  /// changes nothing, if gradients were sent.
  bool take_back();
  uint32_t phase() const { return phase_; }
  /// Throws UserError where the phase's gradients are not complete: optimizer_step would.
  void check_steppable(uint32_t phase) const;
  /// Lets the strategy limit the gradients of a phase, before its optimizer step. `norm` may be null; see
  /// cohort_clip_args.
  void clip_gradients(uint32_t phase, int32_t by, double limit, double* norm = nullptr);
  /// Begins the backward of a step again, within optimizer_step: its gradients are replaced.
  void repeat(uint32_t phase);
  /// Returns whether the step of a phase is left out: with a loss scale, a gradient of any rank is not finite.
  bool skips(uint32_t phase) const { return phases_[phase].overflow; }
  /// Runs the optimizer step of a phase, on gradients that the strategy has reduced, unless it is left out; then
  /// replicas get the weights.
  void optimizer_step(uint32_t phase = 0);
  /// Counts a step of the first phase that a graph has replayed. Asks for votes as a step without gradients does.
  void count_replayed_step();
  /// Gives the lane a task behind those that were captured: their ends tell nothing once the capture is over.
  void leave_capture();
  /// Forgets a step that failed half-way. What it had sent is waited for when the next one begins.
  void abandon();

  /// What this rank says with the next end_backward that asks.
  void vote(Votes votes) { flags_.own = votes; }
  /// Where no gradients are communicated votes have a message of their own: only in every n-th step of a phase (1 at
  /// first; above 0; the same on all ranks).
  void vote_every(uint64_t steps) { flags_.interval = steps; }
  /// Asks the other ranks now, without a backward. Collective.
  void exchange_votes();
  /// What any rank said with the last step; nothing where it was not asked.
  Votes votes() const { return flags_.agreed; }
  /// True where any rank's backward reached the parameter in the last step of its phase.
  bool is_used(uint32_t parameter) const { return flags_.used[parameter] != 0; }
  /// Optimizer steps done, of the phase that has done most.
  uint64_t steps() const { return std::ranges::max(steps_by_phase()); }
  std::vector<uint64_t> steps_by_phase() const;
  /// Parameters in the order in which the last step's gradients were complete; those that backward did not reach last.
  std::span<const uint32_t> arrival_order() const { return arrivals_.order; }
  /// Of the last step, from its first begin.
  std::chrono::nanoseconds step_time() const { return step_time_; }
  /// The next step of each phase follows this many of an earlier run.
  void resume_after(std::span<const uint64_t> steps);

 private:
  static constexpr uint32_t kNoBucket = ~0u;
  struct Phase {
    uint64_t steps = 0;           // done
    uint32_t micro = 0;           // backward passes of this step done
    uint32_t flags = 0;           // of the current or last micro-batch
    const float* loss = nullptr;  // of the step, from its last backward on, if a layer reads it
    bool open = false;            // a step has begun
    bool overflow = false;        // a gradient of any rank was not finite
  };
  /// Which gradients are complete; gradient_ready of several replicas writes it.
  struct Arrivals {
    std::mutex mutex;               // guards the others, and gradient_streams_, while backward runs
    std::vector<uint64_t> pending;  // by bucket: gradients, of all replicas, that are not complete yet
    std::vector<uint8_t> complete;  // by replica and parameter, in this backward
    std::vector<uint8_t> reached;   // by replica and parameter, in any micro-batch of this step
    std::vector<uint32_t> order;    // parameters, as their gradients became complete
    size_t next_bucket = 0;         // the next to be reduced
  };
  /// A micro-batch that may be taken back.
  struct Attempt {
    std::vector<Phase> phases;     // when it began,
    std::vector<uint8_t> reached;  // and what earlier micro-batches have reached
    bool holds = false;
    bool has_sent = false;
  };
  /// The votes of the ranks and a bit for each parameter, which ranks exchange once a step.
  struct Flags {
    Votes own, agreed;
    uint64_t interval = 1;        // steps from vote to vote if no gradients are communicated
    std::vector<uint64_t> words;  // the votes, then one bit for each parameter
    std::vector<uint8_t> used;    // by parameter, on any rank
    const FlightRecorder::Purpose purpose = std::make_shared<const std::string>("flags of the step");
  };

  Parts parts_;
  bool wants_gradients_ = false;
  bool are_dropped_ = false;         // a layer above looks at gradients that nobody averages
  std::vector<uint32_t> phase_of_;   // by parameter
  std::vector<uint32_t> bucket_of_;  // by parameter; kNoBucket: in none
  Arrivals arrivals_;
  GradientStreams gradient_streams_;
  cohort_step reduction_step_{};                   // the step whose buckets are reduced
  std::vector<FlightRecorder::Purpose> purposes_;  // by bucket
  bool overlap_ = true;
  bool phases_in_order_ = false;
  bool partial_ = false;
  std::optional<Attempt> attempt_;
  bool abandoned_ = false;  // what the lane was given is not over
  std::chrono::steady_clock::time_point step_begun_;
  std::chrono::nanoseconds step_time_{0};
  std::vector<Phase> phases_;
  uint32_t phase_ = 0;  // current
  Flags flags_;

  size_t num_parameters() const { return phase_of_.size(); }
  uint32_t num_replicas() const { return parts_.model.num_replicas(); }
  cohort_step step_of(uint32_t phase) const;
  cohort_step step_of_backward() const;
  bool is_of_phase(size_t bucket) const { return parts_.buckets.get(bucket)->phase == phase_; }
  /// Returns a parameter of the current phase's first bucket, or one of the phase if there are no buckets.
  uint32_t first_parameter() const;
  bool sends_at_once() const { return overlap_ && !(attempt_ && attempt_->holds); }
  void begin_window();
  void begin_reduction();
  void complete(uint32_t parameter, uint32_t replica);
  void complete_rest();
  void reduce(size_t bucket);
  void sum_replicas(const cohort_bucket& bucket);
  void finish_reduction();
  void collect_flags();
  void exchange_flags();
  void read_flags();
  bool is_reached(size_t parameter) const;
  void read_votes(uint64_t word);
  uint64_t vote_word() const;
  void check(cohort_status status, const char* slot);
};

}  // namespace cohort::host
