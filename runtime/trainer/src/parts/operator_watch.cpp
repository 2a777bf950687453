#include "parts/operator_watch.hpp"

#include <memory>

#include <c10/core/InferenceMode.h>
#include <torch/library.h>

namespace cohort {
namespace {

/// Returns a kind that LibTorch uses in its own tests only: 2.11 has none for other libraries.
c10::DebugInfoKind kind_of_watches() {
  return c10::DebugInfoKind::TEST_INFO;
}

struct WatchInfo final : c10::DebugInfoBase {
  explicit WatchInfo(OperatorWatcher& given) : watcher(given) {}
  OperatorWatcher& watcher;
};

void show(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, OperatorWatch::kKey);
  const auto* const info = static_cast<const WatchInfo*>(c10::ThreadLocalDebugInfo::get(kind_of_watches()));
  if (!info) return op.redispatchBoxed(below, stack);
  info->watcher.call(op, below, *stack);
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
    : info_(kind_of_watches(), std::make_shared<WatchInfo>(watcher)) {
  require_fallback();
}

bool is_below_autograd(c10::DispatchKeySet below) {
  if (c10::InferenceMode::is_enabled()) return false;  // autograd sees none
  return !below.has_any(c10::autograd_dispatch_keyset) ||
         c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
}

}  // namespace cohort
