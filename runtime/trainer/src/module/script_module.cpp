#include <cohort/script_module.hpp>

#include <memory>

#include <c10/util/Exception.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

torch::jit::Module read_script(const std::filesystem::path& file) {
  try {
    return torch::jit::load(file.string(), c10::kCPU);
  } catch (const c10::Error& error) {
    throw UserError(file.string() +
                    " is not a file of torch.jit.save that this LibTorch can read: " + error.what_without_backtrace());
  }
}

/// A name of LibTorch's modules has no '.', so each part of the script has a module of its own.
void register_tensors(const torch::jit::Module& script, torch::nn::Module& module) {
  for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
    module.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  }
  for (const auto& buffer : script.named_buffers(/*recurse=*/false)) module.register_buffer(buffer.name, buffer.value);
  for (const auto& child : script.named_children()) {
    register_tensors(child.value, *module.register_module(child.name, std::make_shared<torch::nn::Module>()));
  }
}

}  // namespace

ScriptModule::ScriptModule(torch::jit::Module script) : script_(std::move(script)) {
  register_tensors(script_, *this);
  torch::nn::Module::train(script_.is_training());
}

ScriptModule::ScriptModule(const std::filesystem::path& file) : ScriptModule(read_script(file)) {}

void ScriptModule::train(bool on) {
  torch::nn::Module::train(on);
  script_.train(on);
}

Value ScriptModule::call(std::vector<Value> arguments) {
  std::vector<c10::IValue> inputs;
  for (const Value& argument : arguments) inputs.push_back(argument.to_ivalue());
  return Value::from_ivalue(script_.forward(std::move(inputs)));
}

}  // namespace cohort
