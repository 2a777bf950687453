#include <cohort/launch/supervisor.hpp>

#include <signal.h>

#include <algorithm>

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;

// News of children end a wait; this bounds it should another thread of this process have taken a SIGCHLD.
constexpr std::chrono::milliseconds kLongestWait = 1s;

}  // namespace

void Supervisor::watch() {
  while (!all_ended()) {
    wait(until_deadline());
    if (stage_ == Stage::kStarting && wish_.number() != 0) return;
    escalate();
  }
}

RanksEnd Supervisor::end() {
  while (const auto late = signals_.wait(0ms)) on_signal(*late);
  report_cause();
  if (wish_.number() != 0) return {128 + wish_.number(), wish_.number()};
  return {cause_ ? cause_->exit_code : 0, 0};
}

void Supervisor::note_failure(int exit_code, const std::string& what) {
  const bool says_more = cause_ && cause_->exit_code == kPeerFailedCode && exit_code != kPeerFailedCode;
  const bool ended_by_us = stage_ >= Stage::kTerminating || wish_.number() != 0;
  if (!cause_ || (says_more && !ended_by_us)) cause_ = Cause{exit_code, what};
  if (stage_ <= Stage::kRunning) enter(Stage::kLeaving);
  if (cause_->exit_code != kPeerFailedCode) report_cause();
}

void Supervisor::report_cause() {
  if (!cause_ || cause_reported_ || wish_.number() != 0) return;
  cause_reported_ = true;
  report(*cause_);
}

void Supervisor::on_signal(const CaughtSignal& signal) {
  if (signal.number == SIGCHLD) return;
  const auto wish = wish_.take(signal);
  if (wish == StopWish::Is::kSame || stage_ == Stage::kStarting) return;
  if (wish == StopWish::Is::kAnother) {  // told twice: no more patience
    send(SIGKILL);
    return enter(Stage::kKilling);
  }
  if (!signal.whole_group) send(signal.number);
  if (stage_ < Stage::kTerminating) enter(stage_after(signal.number));
}

void Supervisor::enter(Stage stage) {
  stage_ = stage;
  set_deadline(patience(stage));
}

void Supervisor::escalate() {
  if (stage_ == Stage::kRunning || Clock::now() < deadline_ || all_ended()) return;
  if (stage_ == Stage::kStarting || stage_ == Stage::kKilling) return give_up();
  report_cause();
  const bool is_leaving = stage_ == Stage::kLeaving;
  send(is_leaving ? SIGTERM : SIGKILL);
  enter(is_leaving ? Stage::kTerminating : Stage::kKilling);
}

std::chrono::milliseconds Supervisor::until_deadline() const {
  if (stage_ == Stage::kRunning) return kLongestWait;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::clamp(left, std::chrono::milliseconds(0), kLongestWait);
}

}  // namespace cohort::launch
