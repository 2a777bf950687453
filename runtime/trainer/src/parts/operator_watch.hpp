// Shows the operators that a thread calls to a watcher, above autograd and autocast, with their arguments.
//
// LibTorch keeps the dispatch key DeferredInit for libraries beside it: a fallback on that key is called in place of
// every operator of a thread that has asked for it. Threads that have not asked pay nothing.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace cohort {

class OperatorWatcher {
 public:
  virtual ~OperatorWatcher() = default;
  /// Is called in place of an operator, with its arguments on the stack. Calls the operator by
  /// op.redispatchBoxed(below, &stack), which replaces them by the results.
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) = 0;
};

/// While it lives, the watcher is called for the operators of this thread, and for those of a backward that it runs, on
/// autograd's threads.
class OperatorWatch {
 public:
  explicit OperatorWatch(OperatorWatcher& watcher);
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

  static constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;
  /// While it lives, the operators of this thread are not shown.
  class Pause {
   public:
    Pause() = default;

   private:
    c10::impl::ExcludeDispatchKeyGuard excluded_{kKey};
  };

 private:
  c10::DebugInfoGuard info_;
  c10::impl::IncludeDispatchKeyGuard included_{kKey};
};

/// Calls visit(tensor) for each tensor of a value, and puts what it returns in its place.
template <class Visit>
void replace_tensors(c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = visit(value.toTensor());
  } else if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    c10::impl::GenericList list = value.toList();
    bool is_copied = false;  // the caller's list stays as it is
    for (size_t i = 0; i < list.size(); ++i) {
      const c10::IValue item = list.get(i);
      if (!item.isTensor() || !item.toTensor().defined()) continue;
      const at::Tensor put = visit(item.toTensor());
      if (put.is_same(item.toTensor())) continue;
      if (!is_copied) list = list.copy();
      is_copied = true;
      list.set(i, put);
    }
    if (is_copied) value = list;
  }
}

template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  c10::IValue same = value;
  replace_tensors(same, [&](const at::Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

/// Returns whether autograd does not see the operator: a kernel below it has called it.
bool is_below_autograd(c10::DispatchKeySet below);

}  // namespace cohort
