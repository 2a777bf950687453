// A TorchScript model as a submodule: it trains and is saved like any other.
//
//   body = register_module("body", std::make_shared<cohort::ScriptModule>("resnet.pt"));
//   at::Tensor y = body->forward(x);
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <cohort/value.hpp>

namespace cohort {

class ScriptModule : public torch::nn::Module {
 public:
  /// Has the script's parameters and buffers under their names: they are the same tensors.
  explicit ScriptModule(torch::jit::Module script);
  /// Reads a file that torch.jit.save has written, onto the CPU. Throws UserError that names the file.
  explicit ScriptModule(const std::filesystem::path& file);

  /// Calls the script's forward with tensors, or with lists and maps of them.
  template <class... Arguments>
  Value operator()(Arguments&&... arguments) {
    return call({Value(std::forward<Arguments>(arguments))...});
  }
  /// The same if it gives one tensor.
  template <class... Arguments>
  at::Tensor forward(Arguments&&... arguments) {
    return call({Value(std::forward<Arguments>(arguments))...}).tensor();
  }

  /// For its other methods, and for save().
  torch::jit::Module& script() { return script_; }
  void train(bool on = true) override;

 private:
  Value call(std::vector<Value> arguments);

  torch::jit::Module script_;
};

}  // namespace cohort
