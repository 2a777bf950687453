#include "profile/operator_events.hpp"

#include <ATen/record_function.h>

#include <memory>
#include <mutex>

namespace cohort {
namespace {

// LibTorch gives a callback nothing but the operator, so what it writes to must be reachable by name. The lock keeps
// the log alive for an operator that ends on another thread while recording stops.
constinit std::mutex log_lock;
constinit EventLog* log_of_operators = nullptr;

struct Begun final : at::ObserverContext {
  int64_t ns = clock_ns();
};

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& /*function*/) {
  return std::make_unique<Begun>();
}

// One that ends elsewhere than it began, as messages of gloo do, has no place on a thread.
void end_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  if (function.isAsync()) return;
  const Stretch when{static_cast<const Begun*>(context)->ns, clock_ns()};
  const std::lock_guard lock(log_lock);
  if (log_of_operators) log_of_operators->add(EventLog::Kind::kOperator, function.name(), when);
}

void write_to(EventLog* log) {
  const std::lock_guard lock(log_lock);
  log_of_operators = log;
}

}  // namespace

OperatorEvents::OperatorEvents(EventLog& log) {
  using Scope = at::RecordScope;
  write_to(&log);
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin_operator, end_operator)
          .scopes({Scope::FUNCTION, Scope::BACKWARD_FUNCTION, Scope::TORCHSCRIPT_FUNCTION, Scope::USER_SCOPE}));
}

OperatorEvents::~OperatorEvents() {
  at::removeCallback(handle_);
  write_to(nullptr);
}

}  // namespace cohort
