#include "program/unfinished_work.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>

#include "failure/failure.hpp"

namespace cohort {
namespace {

// A global, because handlers of exit() get no argument.
constinit std::atomic<const UnfinishedWork*> innermost{nullptr};

extern "C" void answer_exit() {
  if (const UnfinishedWork* const work = innermost.load()) work->fail_process();
}

bool answers_exit() {
  return std::atexit(answer_exit) == 0 && std::at_quick_exit(answer_exit) == 0;
}

}  // namespace

UnfinishedWork::UnfinishedWork(host::Log& log, std::filesystem::path error_file)
    : log_(log), error_file_(std::move(error_file)), process_(::getpid()), outer_(innermost.exchange(this)) {
  static const bool is_registered = answers_exit();
  if (!is_registered) throw TrainingFailed("no function can be registered for the end of the process");
}

UnfinishedWork::~UnfinishedWork() {
  innermost.store(outer_);
}

void UnfinishedWork::fail_process() const noexcept {
  if (process_ != ::getpid()) return;  // a fork may call exit()
  const auto call = host::PluginCall::on_this_thread();
  const bool is_refusal = call && call->crash == host::PluginCall::Crash::kIsRefusal;
  const int code = static_cast<int>(is_refusal ? ExitCode::kPluginRefused : ExitCode::kTrainingFailed);
  const std::string who = call ? call->plugin + " called exit in its " + call->function : "the program called exit";
  report_failure({code, who + " before its work was done; a step, a hook or a plugin must return or throw instead",
                  is_refusal ? "PluginRefused" : "TrainingFailed"},
                 log_, error_file_);
  std::fflush(nullptr);
  std::cout.flush();
  ::_exit(code);
}

}  // namespace cohort
