// The pointer by which LibTorch holds nodes of autograd: a shared_ptr in 2.11, one of its own in 2.15.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

namespace cohort {

using NodePointer = decltype(torch::autograd::Edge::function);

/// Returns a new node of this kind.
template <class Made, class Pointer = NodePointer, class... Arguments>
Pointer made_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Made>(std::forward<Arguments>(arguments)...);
  } else {
    return c10::make_intrusive<Made>(std::forward<Arguments>(arguments)...);
  }
}

/// Returns a weak pointer to the node.
template <class Pointer>
auto weak_pointer(const Pointer& node) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::weak_ptr<torch::autograd::Node>(node);
  } else {
    return c10::weak_intrusive_ptr<typename Pointer::element_type>(node);
  }
}

}  // namespace cohort
