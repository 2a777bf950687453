// A job on several hosts: its ranks are started once, or again and again.
//
// With a range of nodes every start begins with a search: once enough hosts answer, the others get a moment more. The
// search ends before the ranks are placed, so that a start itself knows how many nodes there are, and is as strict as
// one without a range.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/launch/caught_signals.hpp>
#include <cohort/launch/descriptor.hpp>
#include <cohort/launch/restarts.hpp>
#include <cohort/nodes/nodes.hpp>

#include "node_search.hpp"
#include "nodes_run.hpp"

namespace cohort::nodes {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFurtherHosts = 10s;  // may take so long once there are enough
constexpr std::chrono::milliseconds kLongestSearchPoll = 1s;

class NodesLaunch {
 public:
  NodesLaunch(const NodesJob& job, host::Log& log)
      : job_(job),
        log_(log),
        signal_descriptor_(signals_.open_descriptor()),
        output_(job.output_folder, most_ranks(), signal_descriptor_.number(), log),
        restarts_(job.max_restarts, log) {
    restarts_.tell_ranks(job_.environment);
  }

  int run() {
    while (true) {
      const NodesEnd end = start_once();
      if (!end.made_room && !restarts_.take(end.ranks)) return end.ranks.exit_code;
    }
  }

 private:
  bool is_elastic() const { return job_.min_nodes > 0; }

  int most_ranks() const {
    if (!is_elastic() && job_.processes > 0) return job_.processes;
    int slots = 0;
    for (const NodeSlots& host : job_.hosts) slots += host.slots;
    return slots;
  }

  NodesEnd start_once() {
    try {
      return is_elastic() ? start_on_those_that_answer() : NodesRun(job_, place(job_), {}, scene()).run();
    } catch (const PeerFailed& failed) {  // before the ranks were started
      log_.error(failed.what());
      return {{static_cast<int>(failed.code()), 0}};
    }
  }

  NodesScene scene() { return {signals_, signal_descriptor_.number(), output_, log_}; }

  NodesEnd start_on_those_that_answer() {
    NodesJob job = job_;
    if (const auto signal = find_hosts(job.hosts)) return {{128 + *signal, *signal}};
    std::vector<NodeSlots> missing;
    if (std::ssize(job.hosts) < job_.max_nodes) {
      std::ranges::copy_if(job_.hosts, std::back_inserter(missing), [&](const NodeSlots& host) {
        return std::ranges::find(job.hosts, host) == job.hosts.end();
      });
    }
    return NodesRun(job, place(job), std::move(missing), scene()).run();
  }

  /// Sets the hosts that run the next ranks. Returns a signal that came meanwhile. Throws PeerFailed if there are too
  /// few at the deadline.
  std::optional<int> find_hosts(std::vector<NodeSlots>& hosts) {
    const auto deadline = Clock::now() + job_.start_timeout;
    for (bool has_warned = false;; has_warned = true) {
      NodeSearch search(job_, job_.hosts);
      if (const auto signal = wait_for(search, deadline)) return signal;
      hosts = search.found();
      if (std::ssize(hosts) > job_.max_nodes) hosts.resize(static_cast<std::size_t>(job_.max_nodes));
      if (std::ssize(hosts) < job_.max_nodes && !has_warned) {
        for (const std::string& problem : search.problems()) log_.warning(problem);
      }
      if (std::ssize(hosts) >= job_.min_nodes) return std::nullopt;
      if (Clock::now() > deadline) break;
      if (const auto signal = signal_within(job_.search_pause)) return signal;
    }
    throw PeerFailed(std::to_string(hosts.size()) + " of " + std::to_string(job_.hosts.size()) +
                     " hosts answer, and the job needs " + std::to_string(job_.min_nodes) +
                     "; look at the others, give them more time with --start-timeout, or begin with fewer by "
                     "--nnodes=MIN:MAX");
  }

  /// Waits until all hosts have answered or failed, enough have and the others are late, or the deadline has passed.
  std::optional<int> wait_for(NodeSearch& search, Clock::time_point deadline) const {
    bool are_enough = false;
    while (!search.is_over() && Clock::now() < deadline && std::ssize(search.found()) < job_.max_nodes) {
      std::vector<pollfd> waits{{signal_descriptor_.number(), POLLIN, 0}};
      search.add_to(waits);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      ::poll(waits.data(), waits.size(), static_cast<int>(std::clamp(left, 0ms, kLongestSearchPoll).count()));
      if (const auto signal = signal_within(0ms)) return signal;
      search.read();
      if (are_enough || std::ssize(search.found()) < job_.min_nodes) continue;
      are_enough = true;
      deadline = std::min(deadline, Clock::now() + kFurtherHosts);
    }
    return std::nullopt;
  }

  std::optional<int> signal_within(std::chrono::milliseconds time) const {
    const auto end = Clock::now() + time;
    do {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      const auto signal = signals_.wait(std::max(left, 0ms));
      if (signal && signal->number != SIGCHLD) return signal->number;
    } while (Clock::now() < end);
    return std::nullopt;
  }

  NodesJob job_;
  host::Log& log_;
  launch::CaughtSignals signals_;
  launch::Descriptor signal_descriptor_;
  RankOutput output_;
  launch::Restarts restarts_;
};

}  // namespace

int launch_on_nodes(const NodesJob& job, host::Log& log) {
  return NodesLaunch(job, log).run();
}

}  // namespace cohort::nodes
