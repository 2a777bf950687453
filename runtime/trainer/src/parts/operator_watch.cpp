#include "parts/operator_watch.hpp"

#include <utility>

#include <torch/library.h>

namespace cohort {
namespace {

thread_local const OperatorWatch* watch_of_thread = nullptr;

void show(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, OperatorWatch::kKey);
  if (!watch_of_thread) return op.redispatchBoxed(below, stack);
  watch_of_thread->watcher().call(op, below, *stack);
}

// Once for the process: LibTorch takes one fallback for each key.
void require_fallback() {
  static const torch::Library library = [] {
    torch::Library made(torch::Library::IMPL, "_", OperatorWatch::kKey, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&show>());
    return made;
  }();
}

}  // namespace

OperatorWatch::OperatorWatch(OperatorWatcher& watcher)
    : watcher_(watcher), before_(std::exchange(watch_of_thread, this)) {
  require_fallback();
}

OperatorWatch::~OperatorWatch() {
  watch_of_thread = before_;
}

bool is_below_autograd(c10::DispatchKeySet below) {
  return !below.has_any(c10::autograd_dispatch_keyset) ||
         c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
}

}  // namespace cohort
