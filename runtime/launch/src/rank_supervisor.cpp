#include <cohort/launch/rank_supervisor.hpp>

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause = 20ms;
constexpr std::chrono::milliseconds kInTheKernel = 1s;  // a killed process that is there for longer waits in the kernel

bool is_stopped(const RankProcess& rank) {
  return rank.stopped_by != 0;
}

}  // namespace

RankSupervisor::~RankSupervisor() {
  send(SIGKILL);
  for (RankProcess& rank : ranks_) {
    if (!rank.end) ::waitpid(rank.pid, nullptr, 0);
  }
}

RanksEnd RankSupervisor::run() {
  // Ranks that were started after a signal of the terminal have not had it.
  while (const auto early = signals().wait(0ms)) on_signal({early->number, false});
  collect();
  watch();
  end_orphans();
  return end();
}

bool RankSupervisor::all_ended() const {
  return std::ranges::all_of(ranks_, [](const RankProcess& rank) { return rank.end.has_value(); });
}

void RankSupervisor::wait(std::chrono::milliseconds longest) {
  if (const auto signal = signals().wait(longest)) on_signal(*signal);
  collect();
  end_stopped_ranks();
}

void RankSupervisor::collect() {
  for (RankProcess& rank : ranks_) {
    const int stopped_before = rank.stopped_by;
    if (!rank.end && reap(rank) && rank.end->exit_code != 0) {
      log_.debug(rank.shown_state());
      note_failure(rank.end->exit_code, rank.shown_state());
    }
    if (!rank.end && rank.stopped_by != stopped_before) {
      log_.warning(rank.shown_state() + (is_stopped(rank) ? "; the others wait for it up to --timeout" : " again"));
    }
  }
}

void RankSupervisor::report(const Cause& cause) {
  const auto stopped = std::ranges::find_if(ranks_, is_stopped);
  const bool is_echo = cause.exit_code == kPeerFailedCode && stopped != ranks_.end();
  const std::string what = is_echo ? stopped->shown() + " was stopped for too long; " + cause.what : cause.what;
  if (on_failure_) return on_failure_(cause.exit_code, what);
  log_.error(what);
}

std::chrono::milliseconds RankSupervisor::patience(Stage) const {
  return stop_signal() != 0 ? grace_.stop : grace_.failure;
}

Supervisor::Stage RankSupervisor::stage_after(int signal) const {
  return signal == SIGTERM ? Stage::kTerminating : Stage::kLeaving;
}

// Stopped ranks can neither leave nor handle a signal: there is nothing to wait for.
void RankSupervisor::end_stopped_ranks() {
  const auto runs = [](const RankProcess& rank) { return !rank.end && !is_stopped(rank); };
  const bool is_too_early = stage() == Stage::kRunning || stage() == Stage::kKilling;
  if (is_too_early || all_ended() || std::ranges::any_of(ranks_, runs)) return;
  report_cause();
  send(SIGKILL);
  enter(Stage::kKilling);
}

void RankSupervisor::give_up() {
  for (RankProcess& rank : ranks_) {
    if (rank.end) continue;
    log_.error(rank.shown() + " cannot be ended; it waits in the kernel, for example for a file system");
    rank.end = RankEnd{128 + SIGKILL, SIGKILL};
  }
}

void RankSupervisor::end_orphans() {
  if (!orphans_ || (stop_signal() == 0 && !has_failed())) return;
  const auto deadline = Time::now() + patience(stage());
  std::set<pid_t> told;
  for (auto left = orphans_->running(); !left.empty(); left = orphans_->running()) {
    const bool is_enough = stage() == Stage::kKilling || Time::now() > deadline;
    if (Time::now() > deadline + kInTheKernel) return;
    for (const pid_t pid : left) {
      if (is_enough) {
        ::kill(pid, SIGKILL);
      } else if (told.insert(pid).second) {
        ::kill(pid, stop_signal() != 0 ? stop_signal() : SIGTERM);
      }
    }
    if (const auto signal = signals().wait(kPause)) on_signal(*signal);
  }
}

void RankSupervisor::send(int signal) {
  for (const RankProcess& rank : ranks_) {
    if (!rank.end) ::kill(rank.pid, signal);
  }
}

}  // namespace cohort::launch
