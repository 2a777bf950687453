#include "module/unregistered_leaves.hpp"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

constexpr size_t kShownShapes = 4;

std::string shapes_of(const std::vector<at::Tensor>& tensors) {
  std::ostringstream text;
  for (size_t i = 0; i < std::min(tensors.size(), kShownShapes); ++i) text << (i ? ", " : "") << tensors[i].sizes();
  if (tensors.size() > kShownShapes) text << " and " << tensors.size() - kShownShapes << " more";
  return text.str();
}

}  // namespace

std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& roots) {
  std::vector<Node*> left;
  for (const at::Tensor& root : roots) left.push_back(torch::autograd::impl::gradient_edge(root).function.get());
  std::unordered_set<Node*> seen;
  std::vector<at::Tensor> leaves;
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    if (!node || !seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) leaves.push_back(leaf->variable);
    for (const auto& edge : node->next_edges()) left.push_back(edge.function.get());
  }
  return leaves;
}

void UnregisteredLeaves::note(const std::vector<at::Tensor>& roots, const torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> parameters;
  for (const at::Tensor& parameter : module.parameters()) parameters.insert(parameter.unsafeGetTensorImpl());
  for (const at::Tensor& leaf : leaves_of(roots)) {
    if (!parameters.contains(leaf.unsafeGetTensorImpl())) leaves_.emplace_back(leaf.getIntrusivePtr());
  }
}

void UnregisteredLeaves::check(const torch::nn::Module& module) const {
  std::vector<at::Tensor> alive;
  for (const WeakTensor& leaf : leaves_) {
    auto held = leaf.lock();
    if (held.defined()) alive.emplace_back(std::move(held));
  }
  if (alive.empty()) return;
  throw UserError("the loss depends on tensors that require grad and are no parameters of module '" + module.name() +
                  "' (" + shapes_of(alive) +
                  "), so nothing trains them; register what they belong to with register_module or "
                  "register_parameter, or freeze them with requires_grad_(false)");
}

}  // namespace cohort
