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
#include <cohort/launch/caught_signals.hpp>
#include <cohort/launch/fork_ranks.hpp>
#include <cohort/launch/supervisor.hpp>
#include <cohort/nodes/nodes.hpp>

#include "node_link.hpp"
#include "node_search.hpp"
#include "placement.hpp"
#include "rank_output.hpp"

namespace cohort::nodes {

/// Signals, output and log, which all starts of a job's ranks share.
struct NodesScene {
  const launch::CaughtSignals& signals;
  int signal_descriptor;  ///< readable while there is a signal
  RankOutput& output;
  host::Log& log;
};

struct NodesEnd {
  launch::RanksEnd ranks;
  bool made_room = false;  ///< the ranks were stopped, before they were done, for hosts that answer again
};

/// Nothing starts before every host has said that it can.
class NodesRun final : private launch::Supervisor {
 public:
  /// Looks, while the ranks run, whether one of `missing` answers, and then stops the ranks.
  NodesRun(const NodesJob& job, Placement placement, std::vector<NodeSlots> missing, const NodesScene& scene);

  /// Throws as launch_on_nodes.
  NodesEnd run();

 private:
  using Clock = std::chrono::steady_clock;

  bool all_ended() const override;
  void wait(std::chrono::milliseconds longest) override;
  void send(int signal) override;
  void give_up() override;
  void report(const Cause& cause) override;
  std::chrono::milliseconds patience(Stage stage) const override;
  Stage stage_after(int signal) const override;

  void connect(int node);
  std::string job_text(const NodeLink& link) const;
  void look_for_missing();
  void read(NodeLink& node);
  void handle(NodeLink& node, const Message& message);
  void on_ready();
  void start_others(int port);
  void on_end_of_output(NodeLink& node);
  bool has_ended(const NodeLink& node) const;
  void keep_alive(std::stop_token stop);
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
  int last_sent_ = 0;
  std::mutex alive_;
  std::condition_variable_any alive_wait_;
  std::jthread heartbeat_;  // ends before the nodes do
};

}  // namespace cohort::nodes
