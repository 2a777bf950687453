// Runs a small net as one graph, and as a piece over the parts of a cut, and compares the two bit for bit.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parts/piece.hpp"
#include "parts/unit_profile.hpp"

namespace cohort::testing {

/// A net with its input.
struct CutNet : torch::nn::Module {
  /// Runs forward. Returns the tensors that get a gradient.
  virtual std::vector<at::Tensor> roots() = 0;
};

/// The part of each module that has parameters, in the order of modules().
using Cut = std::vector<size_t>;
using NetResult = std::map<std::string, at::Tensor>;
using PieceEvents = std::vector<std::string>;

constexpr uint64_t kDropoutSeed = 5;

inline at::Generator generator_of_piece() {
  return at::make_generator<at::CPUGeneratorImpl>(kDropoutSeed);
}

template <class Net>
std::shared_ptr<Net> make_net() {
  torch::manual_seed(7);
  return std::make_shared<Net>();
}

inline std::vector<std::shared_ptr<torch::nn::Module>> modules_with_parameters(const torch::nn::Module& net) {
  std::vector<std::shared_ptr<torch::nn::Module>> found;
  for (const auto& module : net.modules(/*include_self=*/false)) {
    if (!module->parameters(/*recurse=*/false).empty()) found.push_back(module);
  }
  return found;
}

/// Adds the parameters and buffers of `net`, which lead to those of `own`. A tied parameter belongs to its first
/// module.
inline void fill(PartTable& table, const torch::nn::Module& net, const torch::nn::Module& own, const Cut& cut) {
  const auto modules = net.modules(false), owners = own.modules(false);
  size_t number = 0;
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto parameters = modules[i]->parameters(false), buffers = modules[i]->buffers(false);
    std::optional<size_t> part;
    if (!parameters.empty()) part = cut.at(number++);
    for (size_t j = 0; j < parameters.size(); ++j) {
      if (!table.find(parameters[j])) table.add(parameters[j], {part, owners[i]->parameters(false)[j]});
    }
    for (size_t j = 0; j < buffers.size(); ++j) table.add(buffers[j], {part, owners[i]->buffers(false)[j]});
  }
}

inline Piece::Listener no_listener() {
  const auto nothing = [](size_t) {};
  return {nothing, nothing, nothing, nothing, [](size_t from, size_t to, const std::string& why) {
            throw std::runtime_error(why + ": " + std::to_string(from) + ", " + std::to_string(to));
          }};
}

inline Piece::Listener recorder(PieceEvents& events) {
  const auto record = [&events](std::string what) {
    return [&events, what](size_t part) { events.push_back(what + " " + std::to_string(part)); };
  };
  return {record("enter forward"), record("leave forward"), record("enter backward"), record("leave backward"),
          no_listener().cross};
}

inline void run_backward(const std::vector<at::Tensor>& /*leaves*/, const std::vector<at::Tensor>& roots,
                         const std::vector<at::Tensor>& gradients) {
  torch::autograd::backward(roots, gradients);
}

/// Returns gradients that depend on the element: sums of them show their order.
inline at::Tensor gradient_for(const at::Tensor& root) {
  const auto numbers = torch::arange(root.numel(), torch::kDouble);
  return (torch::cos(numbers * 1.7) * 0.3 + 0.01).to(root.scalar_type()).reshape(root.sizes());
}

inline NetResult result_of(const CutNet& net, const std::vector<at::Tensor>& roots) {
  NetResult found;
  for (const auto& parameter : net.named_parameters()) {
    found["gradient of " + parameter.key()] = parameter.value().grad();
  }
  for (const auto& buffer : net.named_buffers()) found["buffer " + buffer.key()] = buffer.value();
  for (size_t i = 0; i < roots.size(); ++i) found["root " + std::to_string(i)] = roots[i].detach();
  return found;
}

/// Returns the devices of parts on the CPU.
inline std::vector<c10::Device> cpu_parts(size_t count) {
  return std::vector<c10::Device>(count, c10::kCPU);
}

inline NetResult run_as_one_graph(CutNet& net) {
  torch::manual_seed(kDropoutSeed);
  const auto roots = net.roots();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& root : roots) gradients.push_back(gradient_for(root));
  torch::autograd::backward(roots, gradients);
  return result_of(net, roots);
}

/// Runs `net`, the parameters of which lead to those of `own`. The generator of the process has another seed.
inline NetResult run_in_parts(CutNet& net, CutNet& own, const Cut& cut, size_t parts, const Piece::Listener& listener) {
  PartTable table;
  fill(table, net, own, cut);
  const PartDevices devices(cpu_parts(parts));
  Piece piece(table, devices, generator_of_piece(), listener);
  torch::manual_seed(1234);
  const auto before = at::detail::getDefaultCPUGenerator().get_state();
  const auto roots = piece.forward([&] { return net.roots(); });
  EXPECT_TRUE(torch::equal(before, at::detail::getDefaultCPUGenerator().get_state())) << "the generator has advanced";
  std::vector<std::pair<at::Tensor, at::Tensor>> with_gradients;
  for (const at::Tensor& root : roots) with_gradients.emplace_back(root, gradient_for(root));
  piece.backward(with_gradients, run_backward);
  return result_of(own, roots);
}

inline void expect_same_bits(const NetResult& expected, const NetResult& found) {
  for (const auto& [name, value] : expected) {
    SCOPED_TRACE(name);
    const at::Tensor& other = found.at(name);
    ASSERT_EQ(value.defined(), other.defined());
    if (!value.defined()) continue;
    ASSERT_EQ(value.sizes(), other.sizes());
    ASSERT_EQ(value.scalar_type(), other.scalar_type());
    const at::Tensor a = value.contiguous(), b = other.contiguous();
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0)
        << "largest difference " << (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
  }
}

/// Returns all cuts of the modules into that many contiguous parts.
inline std::vector<Cut> contiguous_cuts(size_t modules, size_t parts) {
  if (modules < parts || parts == 0) return {};
  if (parts == 1) return {Cut(modules, 0)};
  std::vector<Cut> cuts;
  for (Cut shorter : contiguous_cuts(modules - 1, parts)) {
    shorter.push_back(parts - 1);
    cuts.push_back(std::move(shorter));
  }
  for (Cut fewer : contiguous_cuts(modules - 1, parts - 1)) {
    fewer.push_back(parts - 1);
    cuts.push_back(std::move(fewer));
  }
  return cuts;
}

inline std::string text(const Cut& cut) {
  std::string text = "cut";
  for (const size_t part : cut) text += " " + std::to_string(part);
  return text;
}

/// Compares the net as one graph with these cuts.
template <class Net>
void expect_same_in_cuts(const std::vector<Cut>& cuts) {
  const NetResult expected = run_as_one_graph(*make_net<Net>());
  for (const Cut& cut : cuts) {
    SCOPED_TRACE(text(cut));
    const auto net = make_net<Net>();
    ASSERT_NO_THROW(expect_same_bits(expected, run_in_parts(*net, *net, cut, cut.back() + 1, no_listener())));
  }
}

/// Compares the net as one graph with each module as a part, and with all contiguous cuts into one to three parts.
template <class Net>
void expect_same_in_parts() {
  const size_t modules = modules_with_parameters(*make_net<Net>()).size();
  ASSERT_GE(modules, 2U);
  std::vector<Cut> cuts = contiguous_cuts(modules, modules);
  for (size_t parts = 1; parts <= 3; ++parts) {
    for (const Cut& cut : contiguous_cuts(modules, parts)) cuts.push_back(cut);
  }
  expect_same_in_cuts<Net>(cuts);
}

/// Returns all cuts that a profile allows, of a net that reads its modules in the order of modules().
template <class Net>
std::vector<Cut> profiled_cuts() {
  const auto net = make_net<Net>();
  const auto step = [&](size_t, size_t) -> Output { return net->roots().at(0).sum(); };
  const UnitProfile profile = profile_units({*net, 1, 1, step, [](const Output&, Output&) { return false; }});
  std::vector<Cut> cuts{{0}};
  for (size_t i = 1; i < profile.units.size(); ++i) {
    EXPECT_EQ(profile.order[i], i);
    std::vector<Cut> longer;
    for (const Cut& cut : cuts) {
      for (size_t part = cut.back(); part <= cut.back() + (profile.units[i].stays ? 0 : 1); ++part) {
        longer.push_back(cut);
        longer.back().push_back(part);
      }
    }
    cuts = std::move(longer);
  }
  return cuts;
}

}  // namespace cohort::testing
