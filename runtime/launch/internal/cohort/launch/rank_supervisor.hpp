// Watches over the ranks of this machine until all have ended.
//
// Owns the processes: none is left when a RankSupervisor is gone.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/log.hpp>
#include <cohort/launch/orphans.hpp>
#include <cohort/launch/rank_process.hpp>
#include <cohort/launch/supervisor.hpp>

namespace cohort::launch {

/// See LaunchJob.
struct Grace {
  std::chrono::milliseconds stop;
  std::chrono::milliseconds failure;
};

/// Takes the exit code of the rank that made the others end, and a sentence about its end.
using OnFailure = std::function<void(int exit_code, const std::string& what)>;

class RankSupervisor final : private Supervisor {
 public:
  /// Tells `on_failure`, if there is one, in place of the log.
  RankSupervisor(const CaughtSignals& signals, Grace grace, host::Log& log, OnFailure on_failure = {})
      : Supervisor(signals, Stage::kRunning), grace_(grace), log_(log), on_failure_(std::move(on_failure)) {}
  ~RankSupervisor();

  /// Ends the processes that ranks leave behind, too, if they were ended or one of them failed.
  void end_also(const Orphans& orphans) { orphans_ = &orphans; }
  void add(RankProcess process) { ranks_.push_back(std::move(process)); }
  /// Blocks until all ranks have ended.
  RanksEnd run();

 private:
  bool all_ended() const override;
  void wait(std::chrono::milliseconds longest) override;
  void send(int signal) override;
  void give_up() override;
  void report(const Cause& cause) override;
  std::chrono::milliseconds patience(Stage stage) const override;
  Stage stage_after(int signal) const override;

  void collect();
  void end_stopped_ranks();
  void end_orphans();

  Grace grace_;
  host::Log& log_;
  OnFailure on_failure_;
  const Orphans* orphans_ = nullptr;
  std::vector<RankProcess> ranks_;
};

}  // namespace cohort::launch
