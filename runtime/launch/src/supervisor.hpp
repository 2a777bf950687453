// Watches over the ranks of a node until all have ended.
//
// Ranks leave by themselves when one fails, because their collectives notice; a rank that does not is sent SIGTERM and
// then SIGKILL. Owns the processes: none is left when a Supervisor is gone.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/log.hpp>
#include <cohort/launch/fork_ranks.hpp>

#include "caught_signals.hpp"
#include "orphans.hpp"
#include "rank_process.hpp"

namespace cohort::launch {

constexpr int kPeerFailedCode = static_cast<int>(ExitCode::kPeerFailed);

/// See LaunchJob.
struct Grace {
  std::chrono::milliseconds stop;
  std::chrono::milliseconds failure;
};

/// The rank that made the others end, with its exit code.
using OnFailure = std::function<void(const RankProcess& rank, const std::string& what)>;

class Supervisor {
 public:
  /// `on_failure` is told instead of the log.
  Supervisor(const CaughtSignals& signals, Grace grace, host::Log& log, OnFailure on_failure = {})
      : signals_(signals), grace_(grace), log_(log), on_failure_(std::move(on_failure)) {}
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// What ranks leave behind is ended as well where they were ended or one of them failed.
  void end_also(const Orphans& orphans) { orphans_ = &orphans; }
  void add(RankProcess process) { ranks_.push_back(std::move(process)); }
  /// Waits for all ranks.
  RanksEnd run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kRunning, kLeaving, kTerminating, kKilling };

  bool all_ended() const;
  void collect();
  void note_failure(const RankProcess& process);
  void on_signal(const CaughtSignal& signal);
  void enter(Stage stage);
  void end_stopped_ranks();
  void escalate();
  void end_orphans();
  void send(int signal) const;
  void report_cause();
  std::chrono::milliseconds until_deadline() const;

  const CaughtSignals& signals_;
  Grace grace_;
  host::Log& log_;
  OnFailure on_failure_;
  const Orphans* orphans_ = nullptr;
  std::vector<RankProcess> ranks_;
  Stage stage_ = Stage::kRunning;
  Clock::time_point deadline_{};
  std::optional<RankProcess> cause_;
  bool cause_reported_ = false;
  StopWish wish_;
};

}  // namespace cohort::launch
