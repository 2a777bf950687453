#include "parts/piece.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "module/unregistered_leaves.hpp"
#include "parts/device_generators.hpp"
#include "parts/node_pointer.hpp"
#include "parts/operator_arguments.hpp"

namespace cohort {
namespace {

/// The end of a part's graph: keeps the gradient as it comes, which a leaf would copy into its own layout and type.
class Border final : public torch::autograd::Node {
 public:
  explicit Border(std::shared_ptr<at::Tensor> gradient) : gradient_(std::move(gradient)) {}

 private:
  std::shared_ptr<at::Tensor> gradient_;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    *gradient_ = gradient_->defined() ? gradient_->add(gradients[0]) : gradients[0];
    return {};
  }
};

/// Returns whether all tensors of the operator, results too, are on the CPU.
bool runs_on_cpu(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool is_on_cpu = asked_device(op, stack).value_or(c10::kCPU).is_cpu();
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& tensor) { is_on_cpu = is_on_cpu && tensor.is_cpu(); });
  }
  return is_on_cpu;
}

/// Returns how often the tensor was written; inference tensors do not count.
int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

}  // namespace

Piece::Piece(const PartTable& table, const PartDevices& devices, at::Generator generator, Listener listener)
    : table_(table),
      devices_(devices),
      num_parts_(devices.count()),
      generator_(std::move(generator)),
      listener_(std::move(listener)) {}

// Takes the state of the default generator from part to part, because some operators of devices draw from no other
// one. The piece has the device of its part for itself.
void Piece::go_to(size_t part) {
  while (entered_.empty() || here() < part) {
    const size_t next = entered_.size();
    const bool changes_device = next > 0 && devices_[next] != devices_[here()];
    const at::Tensor chance = changes_device ? generator_state_of(devices_[here()]) : at::Tensor();
    moved_.clear();
    if (next > 0) listener_.leave_forward(here());
    listener_.enter_forward(next);
    if (next == 0 && devices_.are_apart()) seed_generator_of(devices_[0], generator_.current_seed());
    if (chance.defined() && devices_.are_apart()) set_generator_state_of(devices_[next], chance);
    entered_.emplace_back();
  }
}

// A view has the history of its base, which later parts may have written to.
size_t Piece::part_of(const at::Tensor& tensor) const {
  const PartTable::Entry* const entry = table_.find(tensor);
  if (entry && entry->part) return *entry->part;
  const auto found = made_.find(tensor.unsafeGetTensorImpl());
  const size_t part = found == made_.end() ? here() : found->second.part;
  if (!tensor.is_view()) return part;
  const auto base = made_.find(tensor._base().unsafeGetTensorImpl());
  return base == made_.end() ? part : std::max(part, base->second.part);
}

// Returns what stands for the tensor in this part: another one, if an earlier part has made it.
at::Tensor Piece::in_this_part(const at::Tensor& source) {
  if (!source.requires_grad() || part_of(source) == here()) return source;
  std::vector<Entered>& known = entered_.back();
  const auto same = std::ranges::find_if(known, [&](const Entered& one) { return one.source.is_same(source); });
  if (same != known.end()) return same->here;
  const OperatorWatch::Pause pause;
  known.push_back({source, devices_.moved(source.detach(), devices_[here()]), std::make_shared<at::Tensor>()});
  const auto border = made_node<Border>(known.back().gradient);
  border->add_input_metadata(known.back().here);
  torch::autograd::impl::set_gradient_edge(known.back().here, {border, 0});
  set_part(known.back().here, /*is_new=*/true);
  return known.back().here;
}

// Keeps the copies of tensors without a graph, because a part reads most of them several times.
at::Tensor Piece::on_device(const at::Tensor& tensor, c10::Device device) {
  if (!PartDevices::is_elsewhere(tensor, device)) return tensor;
  if (tensor.requires_grad() || device != devices_[here()]) return devices_.moved(tensor, device);
  Moved& known = moved_[tensor.unsafeGetTensorImpl()];
  if (!known.copy.defined()) known = {tensor, devices_.moved(tensor, device), version_of(tensor)};
  return known.copy;
}

// Writes the new values to copies on other devices, too, because on one device they would be the same memory. Backward
// may have kept a copy, so none is replaced.
void Piece::follow_write(const at::Tensor& written) {
  if (!written.has_storage()) return;
  const auto is_of_it = [&](const at::Tensor& tensor) {
    return tensor.has_storage() && tensor.storage().is_alias_of(written.storage());
  };
  const OperatorWatch::Pause pause;
  const at::NoGradGuard no_grad;
  for (auto& [address, known] : moved_) {
    if (!is_of_it(known.source)) continue;
    const bool shows = known.version != version_of(known.source);  // not if it was written by data()
    known.version = version_of(known.source);
    const at::Tensor target = shows ? known.copy : known.copy.variable_data();
    target.copy_(devices_.moved(known.source, target.device()));
  }
  for (const Entered& one : entered_.back()) {
    if (one.here.device() == one.source.device()) continue;
    if (is_of_it(one.source)) one.here.detach().copy_(devices_.moved(one.source.detach(), one.here.device()));
    if (is_of_it(one.here)) one.source.detach().copy_(devices_.moved(one.here.detach(), one.source.device()));
  }
}

void Piece::check_write(const at::Tensor& target, const c10::OperatorHandle& op) const {
  const at::Tensor base = target.is_view() ? at::Tensor(target._base()) : target;
  for (const at::Tensor& written : {target, base}) {
    if (table_.find(written) || (!written.requires_grad() && !listener_.is_strict)) continue;
    const auto entered =
        std::ranges::find_if(entered_.back(), [&](const auto& one) { return one.here.is_same(written); });
    const size_t part = part_of(entered == entered_.back().end() ? written : entered->source);
    if (part != here())
      return listener_.cross(part, here(), op.schema().name() + " writes into a tensor of another part");
  }
}

// Pieces are in order within a part only.
void Piece::check_buffer(const at::Tensor& argument, bool is_written, const c10::OperatorHandle& op) const {
  const PartTable::Entry* const entry = table_.find_buffer(argument);
  if (!entry || num_parts_ == 1 || listener_.is_strict) return;  // which looks for itself
  if (!entry->is_written && !is_written) return;
  if (entry->part == here()) return;
  listener_.cross(entry->part.value_or(0), here(),
                  op.schema().name() + " uses a buffer that is written in another part");
}

void Piece::set_part(const at::TensorBase& tensor, bool is_new) {
  const auto found = made_.find(tensor.unsafeGetTensorImpl());
  if (found == made_.end()) {
    made_.emplace(tensor.unsafeGetTensorImpl(), Made{here(), Made::Kept(tensor.getIntrusivePtr())});
  } else if (is_new) {
    found->second.part = here();
  }
}

// Also of tensors that require no gradient: those of a torch::autograd::Function do as soon as it returns. Without
// gradients an operator that returns its argument has not made it.
void Piece::note(const at::Tensor& result, bool is_written) {
  if (table_.find(result)) return;
  set_part(result, at::GradMode::is_enabled());
  if (result.is_view() && !table_.find(at::Tensor(result._base())))
    set_part(result._base(), is_written && at::GradMode::is_enabled());
  if (listener_.result) listener_.result(here(), result);
}

// Leaves out operators of devices, which draw from the default generators: see go_to().
void Piece::fill_generator(const c10::OperatorHandle& op, torch::jit::Stack& stack) const {
  c10::IValue* const value = generator_argument(op, stack);
  if (!value || (devices_.are_apart() && !runs_on_cpu(op, stack))) return;
  if (value->isNone() || value->toGenerator() == at::detail::getDefaultCPUGenerator()) *value = generator_;
}

// Puts the module's own tensors in the place of a clone's. Returns the last part that the arguments belong to.
size_t Piece::take_own(torch::jit::Stack& stack, size_t first) {
  size_t wanted = entered_.empty() ? 0 : here();
  for (size_t i = first; i < stack.size(); ++i) {
    replace_tensors(stack[i], [&](const at::Tensor& tensor) {
      const PartTable::Entry* const entry = table_.find(tensor);
      if (entry) wanted = std::max(wanted, entry->part.value_or(0));
      const PartTable::Entry* const buffer = listener_.input ? table_.find_buffer(tensor) : nullptr;
      if (buffer) inputs_.push_back(buffer->own);
      if (!buffer && listener_.input && (entry || !made_.contains(tensor.unsafeGetTensorImpl())))
        inputs_.push_back(tensor);
      return entry ? entry->own : tensor;
    });
  }
  return wanted;
}

// Returns the device that a random operator draws on, if that is another one than the part's, where other pieces are.
std::optional<c10::Device> Piece::device_of_draw(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                                                 bool is_below) const {
  const c10::IValue* const generator = generator_argument(op, stack);
  if (!devices_.are_apart() || !generator || !generator->isNone()) return std::nullopt;
  const size_t first = stack.size() - op.schema().arguments().size();
  std::optional<c10::Device> device = asked_device(op, stack);
  if (!device) device = device_in_place(op, stack);
  for (size_t i = first; is_below && !device && i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& tensor) { device = device.value_or(tensor.device()); });
  }
  if (!device || device->is_cpu()) return std::nullopt;
  if (!device->has_index()) device = c10::impl::VirtualGuardImpl(device->type()).getDevice();
  return *device == devices_[here()] ? std::nullopt : device;
}

void Piece::call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) {
  if (torch::autograd::get_current_graph_task_id() != -1) {
    if (num_parts_ > 1 && !runs_backward_.exchange(true))
      listener_.cross(0, num_parts_ - 1, "training_step runs backward itself");
    return op.redispatchBoxed(below, &stack);
  }
  fill_generator(op, stack);
  const bool is_below = is_below_autograd(below);
  const auto run = [&] { is_below ? op.redispatchBoxed(below, &stack) : call_in_part(op, below, stack); };
  const std::optional<c10::Device> draws_on = device_of_draw(op, stack, is_below);
  if (!draws_on) return run();
  at::Generator generator = copied_generator_of(*draws_on);
  generator.set_state(generator_state_of(devices_[here()]));
  *generator_argument(op, stack) = generator;
  run();
  set_generator_state_of(devices_[here()], generator.get_state());
}

void Piece::call_in_part(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  const size_t wanted = take_own(stack, first);
  const bool computes_gradients = at::GradMode::is_enabled();
  go_to(computes_gradients ? wanted : 0);
  for (const at::Tensor& input : std::exchange(inputs_, {})) listener_.input(here(), input);
  const bool has_statistics = updates_statistics(op, stack);
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* const alias = arguments[i].alias_info();
    const bool is_written = alias && alias->isWrite();
    replace_tensors(stack[first + i], [&](const at::Tensor& tensor) {
      check_buffer(tensor, is_written || has_statistics, op);
      if (is_written) written.push_back(tensor);
      if (!computes_gradients) return tensor;
      if (!is_written) return in_this_part(tensor);
      check_write(tensor, op);
      return tensor;
    });
  }
  if (devices_.are_apart() && !chooses_device(op, stack)) {
    const c10::Device device = device_in_place(op, stack).value_or(devices_[here()]);
    move_arguments(op, stack, [&](const at::Tensor& tensor) { return on_device(tensor, device); });
  }
  op.redispatchBoxed(below, &stack);
  for (size_t i = first; i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& result) { note(result, !written.empty()); });
  }
  if (!devices_.are_apart()) return;
  for (const at::Tensor& tensor : written) follow_write(tensor);
}

void Piece::check_graph(const std::vector<at::Tensor>& tensors, size_t part) const {
  if (num_parts_ == 1) return;
  for (const at::Tensor& leaf : leaves_of(tensors)) {
    const PartTable::Entry* const entry = table_.find(leaf);
    if (!entry || !entry->part || *entry->part == part) continue;
    return listener_.cross(*entry->part, part, "a torch::autograd::Function has read tensors of several parts");
  }
}

void Piece::backward(std::vector<std::pair<at::Tensor, at::Tensor>> roots, const Backward& run) {
  for (size_t part = num_parts_; part-- > 0;) {
    std::vector<Entered>& entered = entered_[part];
    listener_.enter_backward(part);
    std::vector<at::Tensor> borders, here, gradients;
    std::erase_if(roots, [&](const auto& root) {
      const auto& [tensor, gradient] = root;
      const auto known = std::ranges::find_if(entered, [&](const Entered& one) { return one.source.is_same(tensor); });
      if (known == entered.end() && part_of(tensor) != part) return false;
      here.push_back(known == entered.end() ? tensor : known->here);
      gradients.push_back(gradient.defined() ? devices_.moved(gradient, here.back().device()) : gradient);
      return true;
    });
    for (const Entered& one : entered) borders.push_back(one.here);
    if (!here.empty()) {
      check_graph(here, part);
      run(borders, here, gradients);
    }
    for (const Entered& one : entered) {
      if (one.gradient->defined()) roots.emplace_back(one.source, devices_.moved(*one.gradient, one.source.device()));
      one.gradient->reset();
    }
    entered.clear();  // the part has no memory of the piece any more
    listener_.leave_backward(part);
  }
  if (!roots.empty()) listener_.cross(part_of(roots[0].first), 0, "a gradient comes to a part that has ended backward");
}

}  // namespace cohort
