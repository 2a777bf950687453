// The ranks of a job on several hosts, from the first connection to the end of the last rank.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cohort/host/log.hpp>
#include <cohort/launch/fork_ranks.hpp>
#include <cohort/launch/nodes.hpp>

#include "caught_signals.hpp"
#include "nodes/node_link.hpp"
#include "nodes/node_search.hpp"
#include "nodes/placement.hpp"
#include "nodes/rank_output.hpp"

namespace cohort::launch {

/// Signals, output and log, which all starts of a job's ranks share.
struct NodesScene {
  const CaughtSignals& signals;
  int signal_descriptor;  ///< readable while there is a signal
  RankOutput& output;
  host::Log& log;
};

struct NodesEnd {
  RanksEnd ranks;
  bool made_room = false;  ///< the ranks were stopped, before they were done, for hosts that answer again
};

/// Nothing starts before every host has said that it can. Afterwards the rules are those of a Supervisor, with nodes in
/// place of ranks: the first failure that is no echo of another is the cause, and the others get time to leave.
class NodesRun {
 public:
  /// Looks, while the ranks run, whether one of `missing` answers, and then stops the ranks.
  NodesRun(const NodesJob& job, Placement placement, std::vector<NodeSlots> missing, const NodesScene& scene);
  NodesRun(const NodesRun&) = delete;
  NodesRun& operator=(const NodesRun&) = delete;

  /// Throws as launch_on_nodes.
  NodesEnd run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kStarting, kRunning, kLeaving, kTerminating, kKilling };
  struct Cause {
    int exit_code;
    std::string what;
  };

  void connect(int node);
  std::string job_text(const NodeLink& link) const;
  void wait();
  void look_for_missing();
  void read(NodeLink& node);
  void handle(NodeLink& node, const Message& message);
  void on_ready();
  void start_others(int port);
  void on_end_of_output(NodeLink& node);
  void on_signal(const CaughtSignal& signal);
  void note_failure(int exit_code, const std::string& what);
  void report_cause();
  void enter(Stage stage);
  void escalate();
  void send_signal(int number);
  void keep_alive(std::stop_token stop);
  bool all_over() const;
  std::string unanswered() const;

  const NodesJob& job_;
  Placement placement_;
  const NodesScene scene_;
  std::string run_id_, secret_;
  const std::vector<NodeSlots> missing_;
  std::optional<NodeSearch> search_;  // of the missing hosts
  Clock::time_point next_search_;
  bool makes_room_ = false;
  bool is_unfinished_ = false;  // ranks have ended before they were done
  std::vector<std::unique_ptr<NodeLink>> nodes_;
  Stage stage_ = Stage::kStarting;
  Clock::time_point deadline_;
  std::optional<Cause> cause_;
  bool cause_reported_ = false;
  StopWish wish_;
  int last_sent_ = 0;
  std::mutex alive_;
  std::condition_variable_any alive_wait_;
  std::jthread heartbeat_;  // ends before the nodes do
};

}  // namespace cohort::launch
