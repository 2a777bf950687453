// Brings the children of a launcher to their end: the ranks of this machine (RankSupervisor), or the nodes of a job
// (NodesRun of cohort_nodes).
//
// The first failure that is no echo of another is the cause. The other children leave by themselves, because their
// collectives notice; those that do not are sent SIGTERM and then SIGKILL. A signal to the launcher is sent on, and a
// second one kills.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <cohort/host/error.hpp>
#include <cohort/launch/caught_signals.hpp>
#include <cohort/launch/fork_ranks.hpp>

namespace cohort::launch {

constexpr int kPeerFailedCode = static_cast<int>(ExitCode::kPeerFailed);

class Supervisor {
 public:
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

 protected:
  enum class Stage { kStarting, kRunning, kLeaving, kTerminating, kKilling };
  struct Cause {
    int exit_code;
    std::string what;
  };

  Supervisor(const CaughtSignals& signals, Stage stage) : signals_(signals), stage_(stage) {}
  ~Supervisor() = default;

  virtual bool all_ended() const = 0;
  /// Blocks until something happens or the time is over; calls on_signal and note_failure.
  virtual void wait(std::chrono::milliseconds longest) = 0;
  /// Sends a signal to all children that run.
  virtual void send(int signal) = 0;
  /// Logs the children that have not ended after SIGKILL, or throws because they have not started in time.
  virtual void give_up() = 0;
  /// Logs why the job ends.
  virtual void report(const Cause& cause) = 0;
  /// Returns how long children may stay in a stage.
  virtual std::chrono::milliseconds patience(Stage stage) const = 0;
  /// Returns the first stage after the launcher was sent a signal.
  virtual Stage stage_after(int signal) const = 0;

  /// Blocks until all children have ended, or a signal comes before they have started.
  void watch();
  /// Reports the cause if that has not happened. Returns how the children ended.
  RanksEnd end();
  void on_signal(const CaughtSignal& signal);
  void note_failure(int exit_code, const std::string& what);
  void report_cause();
  void enter(Stage stage);
  Stage stage() const { return stage_; }
  bool has_failed() const { return cause_.has_value(); }
  int stop_signal() const { return wish_.number(); }  ///< 0: none
  const CaughtSignals& signals() const { return signals_; }
  void set_deadline(std::chrono::milliseconds from_now) { deadline_ = Clock::now() + from_now; }

 private:
  using Clock = std::chrono::steady_clock;

  void escalate();
  std::chrono::milliseconds until_deadline() const;

  const CaughtSignals& signals_;
  Stage stage_;
  Clock::time_point deadline_{};
  std::optional<Cause> cause_;
  bool cause_reported_ = false;
  StopWish wish_;
};

}  // namespace cohort::launch
