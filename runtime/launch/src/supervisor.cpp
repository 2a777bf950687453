#include "supervisor.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;

// SIGCHLD wakes the wait; this bounds it should another thread of this process have taken the signal.
constexpr std::chrono::milliseconds kLongestWait = 1s;
constexpr std::chrono::milliseconds kPause = 20ms;

}  // namespace

Supervisor::~Supervisor() {
  send(SIGKILL);
  for (RankProcess& rank : ranks_) {
    if (!rank.end) ::waitpid(rank.pid, nullptr, 0);
  }
}

RanksEnd Supervisor::run() {
  // Ranks that were started after a signal of the terminal have not had it.
  while (const auto early = signals_.wait(0ms)) on_signal({early->number, false});
  collect();
  while (!all_ended()) {
    if (const auto signal = signals_.wait(until_deadline())) on_signal(*signal);
    collect();
    escalate();
  }
  end_orphans();
  while (const auto late = signals_.wait(0ms)) on_signal(*late);
  report_cause();
  if (wish_.number() != 0) return {128 + wish_.number(), wish_.number()};
  return {cause_ ? cause_->end->exit_code : 0, 0};
}

bool Supervisor::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.end.has_value(); });
}

void Supervisor::collect() {
  for (RankProcess& rank : ranks_) {
    const int stopped_before = rank.stopped_by;
    if (!rank.end && reap(rank) && rank.end->exit_code != 0) note_failure(rank);
    if (!rank.end && rank.stopped_by != stopped_before) {
      log_.warning(rank.shown_state() + (rank.stopped_by != 0 ? "; the others wait for it up to --timeout" : " again"));
    }
  }
}

void Supervisor::note_failure(const RankProcess& process) {
  const bool said_more =
      cause_ && cause_->end->exit_code == kPeerFailedCode && process.end->exit_code != kPeerFailedCode;
  const bool ended_by_us = stage_ >= Stage::kTerminating || wish_.number() != 0;
  if (!cause_ || (said_more && !ended_by_us)) cause_ = process;
  log_.debug(process.shown_state());
  if (stage_ == Stage::kRunning) enter(Stage::kLeaving);
  if (cause_->end->exit_code != kPeerFailedCode) report_cause();
}

void Supervisor::report_cause() {
  if (!cause_ || cause_reported_ || wish_.number() != 0) return;
  cause_reported_ = true;
  const auto stopped = std::ranges::find_if(ranks_, [](const RankProcess& rank) { return rank.stopped_by != 0; });
  const bool is_echo = cause_->end->exit_code == kPeerFailedCode && stopped != ranks_.end();
  const std::string what =
      is_echo ? stopped->shown() + " was stopped for too long; " + cause_->shown_state() : cause_->shown_state();
  if (on_failure_) {
    on_failure_(*cause_, what);
  } else {
    log_.error(what);
  }
}

void Supervisor::on_signal(const CaughtSignal& signal) {
  if (signal.number == SIGCHLD) return;
  const auto wish = wish_.take(signal);
  if (wish == StopWish::Is::kSame) return;
  if (wish == StopWish::Is::kAnother) {  // told twice: no more patience
    send(SIGKILL);
    enter(Stage::kKilling);
    return;
  }
  if (!signal.whole_group) send(signal.number);
  if (stage_ < Stage::kTerminating) enter(signal.number == SIGTERM ? Stage::kTerminating : Stage::kLeaving);
}

void Supervisor::enter(Stage stage) {
  stage_ = stage;
  deadline_ = Clock::now() + (wish_.number() != 0 ? grace_.stop : grace_.failure);
}

// Stopped ranks can neither leave nor handle a signal: there is nothing to wait for.
void Supervisor::end_stopped_ranks() {
  const auto runs = [](const RankProcess& rank) { return !rank.end && rank.stopped_by == 0; };
  if (stage_ == Stage::kKilling || std::ranges::any_of(ranks_, runs)) return;
  report_cause();
  send(SIGKILL);
  enter(Stage::kKilling);
}

void Supervisor::escalate() {
  if (stage_ == Stage::kRunning || all_ended()) return;
  end_stopped_ranks();
  if (Clock::now() < deadline_) return;
  if (stage_ == Stage::kLeaving) {
    report_cause();
    send(SIGTERM);
    enter(Stage::kTerminating);
  } else if (stage_ == Stage::kTerminating) {
    send(SIGKILL);
    enter(Stage::kKilling);
  } else {
    for (RankProcess& rank : ranks_) {
      if (rank.end) continue;
      log_.error(rank.shown() + " cannot be ended; it waits in the kernel, for example for a file system");
      rank.end = RankEnd{128 + SIGKILL, SIGKILL};
    }
  }
}

void Supervisor::end_orphans() {
  if (!orphans_ || (wish_.number() == 0 && !cause_)) return;
  const auto patience = Clock::now() + (wish_.number() != 0 ? grace_.stop : grace_.failure);
  std::set<pid_t> told;
  for (auto left = orphans_->running(); !left.empty(); left = orphans_->running()) {
    const bool is_enough = stage_ == Stage::kKilling || Clock::now() > patience;
    if (Clock::now() > patience + kLongestWait) return;  // they wait in the kernel
    for (const pid_t pid : left) {
      if (is_enough) {
        ::kill(pid, SIGKILL);
      } else if (told.insert(pid).second) {
        ::kill(pid, wish_.number() != 0 ? wish_.number() : SIGTERM);
      }
    }
    if (const auto signal = signals_.wait(kPause)) on_signal(*signal);
  }
}

void Supervisor::send(int signal) const {
  for (const RankProcess& rank : ranks_) {
    if (!rank.end) ::kill(rank.pid, signal);
  }
}

std::chrono::milliseconds Supervisor::until_deadline() const {
  if (stage_ == Stage::kRunning) return kLongestWait;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::clamp(left, std::chrono::milliseconds(0), kLongestWait);
}

}  // namespace cohort::launch
