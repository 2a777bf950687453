#include "parts/units.hpp"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include <torch/csrc/autograd/graph_task.h>

#include "parts/operator_watch.hpp"

namespace cohort {
namespace {

class FirstReads final : public OperatorWatcher {
 public:
  FirstReads(const std::vector<Unit>& units, OperatorWatcher* caller) : caller_(caller) {
    for (size_t number = 0; number < units.size(); ++number) {
      for (const at::Tensor& tensor : units[number].tensors) unit_of_[tensor.unsafeGetTensorImpl()] = number;
    }
  }
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override {
    if (torch::autograd::get_current_graph_task_id() != -1) {
      runs_backward_ = true;
      return op.redispatchBoxed(below, &stack);
    }
    const size_t first = stack.size() - op.schema().arguments().size();
    for (size_t i = first; i < stack.size(); ++i) {
      visit_tensors(stack[i], [&](const at::Tensor& tensor) { note(tensor); });
    }
    caller_ ? caller_->call(op, below, stack) : op.redispatchBoxed(below, &stack);
  }
  const std::vector<size_t>& order() const { return order_; }
  bool runs_backward() const { return runs_backward_; }

 private:
  void note(const at::Tensor& tensor) {
    const auto found = unit_of_.find(tensor.unsafeGetTensorImpl());
    if (found != unit_of_.end() && !std::ranges::count(order_, found->second)) order_.push_back(found->second);
  }

  OperatorWatcher* caller_;
  std::unordered_map<const at::TensorImpl*, size_t> unit_of_;
  std::vector<size_t> order_;
  std::atomic<bool> runs_backward_ = false;  // threads of devices run backward
};

/// Calls visit(tensor) for the parameters and then the buffers of a module, without its children.
template <class Visit>
void visit_own(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) visit(item.value());
  for (const auto& item : module.named_buffers(/*recurse=*/false)) visit(item.value());
}

}  // namespace

std::vector<Unit> units_of(const torch::nn::Module& module) {
  std::vector<Unit> units;
  std::unordered_set<const at::TensorImpl*> taken;
  const auto add = [&](const std::string& name, const torch::nn::Module& one) {
    if (one.parameters(/*recurse=*/false).empty()) return;
    Unit unit{name, {}};
    visit_own(one, [&](const at::Tensor& tensor) {
      if (tensor.defined() && taken.insert(tensor.unsafeGetTensorImpl()).second) unit.tensors.push_back(tensor);
    });
    if (!unit.tensors.empty()) units.push_back(std::move(unit));
  };
  add(module.name(), module);  // which may be on the stack: named_modules() cannot give it
  for (const auto& item : module.named_modules({}, /*include_self=*/false)) add(item.key(), *item.value());
  return units;
}

Reading order_of_reading(const std::vector<Unit>& units, const std::function<void()>& run, OperatorWatcher* caller) {
  FirstReads reads(units, caller);
  {
    const OperatorWatch watch(reads);
    run();
  }
  std::vector<size_t> order = reads.order();
  for (size_t number = 0; number < units.size(); ++number) {
    if (std::ranges::count(order, number)) continue;
    const auto before = number == 0 ? order.begin() : std::ranges::find(order, number - 1) + 1;
    order.insert(before, number);
  }
  return {order, reads.runs_backward()};
}

void add_to(PartTable& table, const torch::nn::Module& module, const torch::nn::Module& own,
            const std::vector<size_t>& parts, const std::vector<WrittenBuffer>& written) {
  std::unordered_map<const at::TensorImpl*, size_t> part_of;
  const std::vector<Unit> units = units_of(own);
  for (size_t number = 0; number < units.size(); ++number) {
    for (const at::Tensor& tensor : units[number].tensors) part_of[tensor.unsafeGetTensorImpl()] = parts[number];
  }
  const auto entry_of = [&](const at::Tensor& tensor, bool is_buffer) {
    const auto part = part_of.find(tensor.unsafeGetTensorImpl());
    return PartTable::Entry{.part = part == part_of.end() ? std::nullopt : std::optional(part->second),
                            .own = tensor,
                            .is_buffer = is_buffer};
  };
  const auto parameters = module.parameters(), own_parameters = own.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) table.add(parameters[i], entry_of(own_parameters[i], false));
  const auto buffers = module.buffers(), own_buffers = own.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].defined()) continue;
    PartTable::Entry entry = entry_of(own_buffers[i], true);
    for (const WrittenBuffer& one : written) {
      if (one.buffer == i) entry.part = one.part, entry.is_written = true;
    }
    table.add(buffers[i], entry);
  }
}

}  // namespace cohort
