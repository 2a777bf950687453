// Measures a training: a table of its phases, and a trace of some of its steps.
//
// Objects of Timed mark the phases where they are, on the thread of the loop and on those of replicas; the table has
// the loop's thread, and of replicas the first one, for which the loop waits. In the steps of the trace operators and
// communication are recorded as well. Whoever is timed holds a pointer to the Profile, which is null unless --profile
// is given: then nothing reads a clock. Lives as long as the training.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cohort/runtime.hpp>

#include "profile/event_log.hpp"
#include "profile/phase_table.hpp"
#include "profile/rank_clock.hpp"
#include "profile/settings.hpp"
#include "profile/trace_text.hpp"

namespace cohort {

/// Divides time among phases: each moment belongs to the phase that was entered last and not left yet.
///
/// So the times of all rows add up to the time between begin and end, however phases lie in each other. Belongs to the
/// thread of a loop; another one may use it while that one waits for it.
class PhaseClock {
 public:
  struct Row {
    uint64_t count = 0;  ///< how often it was entered
    int64_t ns = 0;
  };

  explicit PhaseClock(size_t rows) : rows_(rows) {}

  size_t add_row() {
    rows_.emplace_back();
    return rows_.size() - 1;
  }
  void enter(size_t row, int64_t now_ns) {
    charge(now_ns);
    open_.push_back(row);
    ++rows_[row].count;
  }
  void leave(int64_t now_ns) {
    charge(now_ns);
    open_.pop_back();
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::vector<size_t> open_;  // the innermost last
  int64_t charged_until_ns_ = 0;

  void charge(int64_t now_ns) {
    if (!open_.empty()) rows_[open_.back()].ns += now_ns - charged_until_ns_;
    charged_until_ns_ = now_ns;
  }
};

class Profile {
 public:
  /// Rows of the table; those of callbacks follow.
  enum Row : size_t {
    kData,
    kTransfer,
    kForward,
    kBackward,
    kReplicas,   ///< the loop waits for replicas beside the first
    kGradients,  ///< the loop waits for gradients
    kOptimizer,
    kReplay,  ///< --graph replays a step
    kValidation,
    kCheckpoint,
    kRest,
  };

  Profile(Runtime& runtime, ProfileSettings settings);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// Returns a row of its own for a callback, or for the hooks of the module.
  size_t add_row(std::string name);

  /// The calling thread is the loop's, and what is not timed from here on is the rest. Collective.
  void begin_loop();
  void end_loop();
  void begin_step();
  void end_step();
  /// Returns the time at which the phase has begun. `counts`: the table has it.
  int64_t enter(size_t row, bool counts);
  void leave(size_t row, bool counts, int64_t begun_ns);

  /// Adds a phase to the trace that is no row of the table. Any thread.
  void note(const std::string& name, Stretch when) {
    if (records_) log_.add(EventLog::Kind::kPhase, name, when);
  }

  /// Prints the table and, if files may be written, writes the trace, both on rank 0. A file that cannot be written is
  /// a warning. Collective.
  void report(bool writes_files);

 private:
  struct Recording;

  PhaseTimes times() const;
  TracePlace place() const;
  void write_trace();
  void tell_of_trace() const;

  Runtime& runtime_;
  const ProfileSettings settings_;
  std::vector<std::string> names_;  // of rows
  PhaseClock clock_;
  RankClock rank_clock_;
  uint64_t steps_ = 0;
  int64_t step_begun_ns_ = 0;
  EventLog log_;
  std::atomic<bool> records_{false};
  std::unique_ptr<Recording> recording_;  // in the steps of the trace
};

/// A phase, from here to the end of the scope.
class Timed {
 public:
  Timed(Profile* profile, size_t row, bool counts = true) : profile_(profile), row_(row), counts_(counts) {
    if (profile_) begun_ns_ = profile_->enter(row_, counts_);
  }
  ~Timed() {
    if (profile_) profile_->leave(row_, counts_, begun_ns_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Profile* profile_;
  size_t row_;
  bool counts_;
  int64_t begun_ns_ = 0;
};

/// Something that is no phase, but in which phases are.
template <void (Profile::*Begin)(), void (Profile::*End)()>
class TimedWhole {
 public:
  explicit TimedWhole(Profile* profile) : profile_(profile) {
    if (profile_) (profile_->*Begin)();
  }
  ~TimedWhole() {
    if (profile_) (profile_->*End)();
  }
  TimedWhole(const TimedWhole&) = delete;
  TimedWhole& operator=(const TimedWhole&) = delete;

 private:
  Profile* profile_;
};
using TimedLoop = TimedWhole<&Profile::begin_loop, &Profile::end_loop>;
using TimedStep = TimedWhole<&Profile::begin_step, &Profile::end_step>;

}  // namespace cohort
