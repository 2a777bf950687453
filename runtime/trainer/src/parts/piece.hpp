// Forward and backward of one piece of a batch, over the parts of the model: in segments, one for each part.
//
// An operator that reads a parameter of a later part ends a segment. A tensor of an earlier segment enters the next one
// without its graph, so that backward runs segment by segment. The gradient of a tensor that enters several segments
// goes from the last one to the one before, and so to the tensor: sums are those of one graph, bit for bit, wherever
// the model is cut. Belongs to one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "parts/operator_watch.hpp"
#include "parts/part_devices.hpp"
#include "parts/part_table.hpp"

namespace cohort {

class Piece final : public OperatorWatcher {
 public:
  /// Functions that are called when the piece enters a part, and when forward or backward there ends.
  struct Listener {
    std::function<void(size_t part)> enter_forward, leave_forward, enter_backward, leave_backward;
    /// Something in forward or backward goes from one part to another in a way that has no order among pieces: throws,
    /// or notes that the parts are to be one. `why`: "aten::add_ writes into a tensor of an earlier part".
    std::function<void(size_t from, size_t to, const std::string& why)> cross;
    std::function<void(size_t part, const at::Tensor& result)> result{};   ///< of an operator; may be empty
    std::function<void(size_t part, const at::Tensor& argument)> input{};  ///< that none has made; may be empty
    bool is_strict = false;  ///< cross() is called for writes without a gradient, too, which may have one later
  };
  /// A tensor of an earlier part, and the one that stands for it, which is where backward of the part ends.
  struct Entered {
    at::Tensor source, here;
    std::shared_ptr<at::Tensor> gradient;  ///< after backward; undefined: the loss does without it
  };
  /// Runs backward from the roots to the tensors that have entered the part.
  using Backward = std::function<void(const std::vector<at::Tensor>& entered, const std::vector<at::Tensor>& roots,
                                      const std::vector<at::Tensor>& gradients)>;

  /// `generator` is one of the CPU. Operators of devices draw from a sequence that begins with the same seed.
  Piece(const PartTable& table, const PartDevices& devices, at::Generator generator, Listener listener);

  /// Runs forward under a watch of this thread's operators.
  template <class Forward>
  auto forward(const Forward& run) {
    go_to(0);
    auto result = [&] {
      const OperatorWatch watch(*this);
      return run();
    }();
    go_to(num_parts_ - 1);
    moved_.clear();
    listener_.leave_forward(num_parts_ - 1);
    return result;
  }
  /// Runs backward of tensors that forward has made, with these gradients, from the last part to the first.
  void backward(std::vector<std::pair<at::Tensor, at::Tensor>> roots, const Backward& run);

  /// Returns the tensors that have entered each part.
  const std::vector<std::vector<Entered>>& entered() const { return entered_; }
  /// Calls cross() if the graph of tensors of a part reaches parameters of another one, as that of a
  /// torch::autograd::Function does which has read them.
  void check_graph(const std::vector<at::Tensor>& tensors, size_t part) const;
  /// Returns the part that has made a tensor of forward, or that has the parameter.
  size_t part_of(const at::Tensor& tensor) const;

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override;

 private:
  /// The part that has made a tensor, and the tensor's address, which no other one takes as long as this lives.
  struct Made {
    using Kept = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
    size_t part;
    Kept kept;
  };

  /// A copy of a tensor without a graph on the device of the present part.
  struct Moved {
    at::Tensor source, copy;
    int64_t version;  // of the source
  };

  const PartTable& table_;
  const PartDevices& devices_;
  const size_t num_parts_;
  at::Generator generator_;
  const Listener listener_;
  std::vector<std::vector<Entered>> entered_;  // by part, up to the one where forward is
  std::unordered_map<const at::TensorImpl*, Made> made_;
  std::unordered_map<const at::TensorImpl*, Moved> moved_;
  std::atomic<bool> runs_backward_ = false;  // itself, on threads of devices
  std::vector<at::Tensor> inputs_;  // arguments of the operator at hand that none has made, if somebody listens

  size_t here() const { return entered_.size() - 1; }
  void go_to(size_t part);
  void fill_generator(const c10::OperatorHandle& op, torch::jit::Stack& stack) const;
  size_t take_own(torch::jit::Stack& stack, size_t first);
  at::Tensor in_this_part(const at::Tensor& source);
  at::Tensor on_device(const at::Tensor& tensor, c10::Device device);
  void follow_write(const at::Tensor& written);
  void call_in_part(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack);
  std::optional<c10::Device> device_of_draw(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                                            bool is_below) const;
  void check_write(const at::Tensor& target, const c10::OperatorHandle& op) const;
  void check_buffer(const at::Tensor& argument, bool is_written, const c10::OperatorHandle& op) const;
  void set_part(const at::TensorBase& tensor, bool is_new);
  void note(const at::Tensor& result, bool is_written);
};

}  // namespace cohort
