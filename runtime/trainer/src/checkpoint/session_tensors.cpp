#include "checkpoint/session_tensors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <set>
#include <span>
#include <unordered_set>

#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

constexpr std::string_view kStatePrefix = "cohort.state/";
constexpr std::string_view kStrategyPrefix = "cohort.strategy/";

// The types that STATE may have.
constexpr std::array<std::pair<int32_t, at::ScalarType>, 11> kTypes{{{COHORT_FLOAT32, at::kFloat},
                                                                     {COHORT_FLOAT64, at::kDouble},
                                                                     {COHORT_FLOAT16, at::kHalf},
                                                                     {COHORT_BFLOAT16, at::kBFloat16},
                                                                     {COHORT_INT8, at::kChar},
                                                                     {COHORT_INT16, at::kShort},
                                                                     {COHORT_INT32, at::kInt},
                                                                     {COHORT_INT64, at::kLong},
                                                                     {COHORT_UINT8, at::kByte},
                                                                     {COHORT_UINT64, at::kUInt64},
                                                                     {COHORT_BOOL, at::kBool}}};

at::ScalarType scalar_type_of(int32_t dtype) {
  return std::ranges::find(kTypes, dtype, &std::pair<int32_t, at::ScalarType>::first)->second;
}

/// Returns 0 for a type that STATE does not have.
int32_t dtype_of(at::ScalarType type) {
  const auto known = std::ranges::find(kTypes, type, &std::pair<int32_t, at::ScalarType>::second);
  return known == kTypes.end() ? 0 : known->first;
}

/// Splits off and returns the first `bytes` of the text. Throws TrainingFailed if there are fewer.
std::string_view take(std::string_view& text, size_t bytes) {
  if (bytes > text.size()) throw TrainingFailed("a rank has sent fingerprints of its tensors that are cut off");
  const std::string_view front = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return front;
}

uint64_t take_number(std::string_view& text) {
  uint64_t number = 0;
  std::memcpy(&number, take(text, sizeof number).data(), sizeof number);
  return number;
}

void append_number(std::string& text, uint64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Told apart by 64 bits that depend on every bit of the tensor; nobody chooses weights to deceive it.
uint64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  const auto* bytes = static_cast<const std::byte*>(flat.const_data_ptr());
  uint64_t hash = 0x9e3779b97f4a7c15U ^ flat.nbytes();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;  // or sign bits would only ever meet sign bits
  };
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= flat.nbytes(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    mix(word);
  }
  uint64_t rest = 0;
  if (at < flat.nbytes()) std::memcpy(&rest, bytes + at, flat.nbytes() - at);
  mix(rest);
  return hash;
}

}  // namespace

// Writes for each tensor the fingerprint, the length of its name, and the name, because names may hold any bytes.
std::string text_of(const Fingerprints& prints) {
  std::string text;
  for (const auto& [name, print] : prints) {
    append_number(text, print);
    append_number(text, name.size());
    text += name;
  }
  return text;
}

Fingerprints parse_fingerprints(std::string_view text) {
  Fingerprints read;
  while (!text.empty()) {
    const uint64_t print = take_number(text);
    read.emplace(take(text, take_number(text)), print);
  }
  return read;
}

namespace {

Fingerprints fingerprints_of(const TensorIndex& tensors) {
  Fingerprints prints;
  for (const auto& [name, tensor] : tensors) prints.emplace(name, fingerprint(tensor));
  return prints;
}

/// Names that some ranks have with other bits, or do not have; by name: do all have them?
std::map<std::string, bool, std::less<>> differing_names(const std::vector<std::string>& texts) {
  std::vector<Fingerprints> ranks;
  std::set<std::string> names;
  for (const auto& text : texts) {
    for (const auto& [name, print] : ranks.emplace_back(parse_fingerprints(text))) names.insert(name);
  }
  std::map<std::string, bool, std::less<>> differing;
  for (const auto& name : names) {
    bool everywhere = true, equal = true;
    for (const auto& rank : ranks) {
      const auto found = rank.find(name);
      everywhere = everywhere && found != rank.end();
      equal = everywhere && equal && found->second == ranks[0].find(name)->second;
    }
    if (!equal) differing.emplace(name, everywhere);
  }
  return differing;
}

bool holds(const NamedTensors& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
}

TensorIndex index_of(const SessionTensors& tensors) {
  TensorIndex index;
  for (const auto* group : {&tensors.parameters, &tensors.buffers, &tensors.optimizer}) {
    for (const auto& [name, tensor] : *group) index.emplace(name, tensor);
  }
  return index;
}

/// In the order in which strategies number them: tied ones are one.
NamedTensors numbered_parameters(const torch::nn::Module& module) {
  NamedTensors numbered;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) numbered.emplace_back(item.key(), item.value());
  }
  return numbered;
}

at::Tensor tensor_of(std::span<const std::byte> bytes, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size() / c10::elementSize(type))}, type);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

std::string shape_text(const at::Tensor& tensor) {
  std::string text = "[";
  for (const int64_t size : tensor.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

NamedTensors named_parameters_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

NamedTensors named_buffers_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

TensorsByPlace divide_by_rank(Session& session, const SessionTensors& tensors) {
  const TensorIndex index = index_of(tensors);
  std::map<std::string, bool, std::less<>> differing;
  if (session.runtime().world_size() > 1) {
    differing = differing_names(session.runtime().all_gather(text_of(fingerprints_of(index))));
  }
  TensorsByPlace divided;
  for (const auto& [name, everywhere] : differing) {  // in the same order on all ranks
    const at::Tensor* const own = find_tensor(index, name);
    if (own) divided.own.emplace_back(name, *own);
    const bool is_buffer = holds(tensors.buffers, name);
    const bool averages = everywhere && !is_buffer && own->is_floating_point();
    if (averages) divided.shared.emplace_back(name, session.all_reduce(*own, /*mean=*/true));
    if (!averages && own) divided.shared.emplace_back(name, *own);
    divided.parameters_differ = divided.parameters_differ || holds(tensors.parameters, name);
    const bool is_state = name.starts_with("optimizer.") && !name.ends_with(".archive");
    divided.optimizer_differs = divided.optimizer_differs || is_state;
  }
  for (const auto* group : {&tensors.parameters, &tensors.buffers, &tensors.optimizer}) {
    for (const auto& [name, tensor] : *group) {
      if (!differing.contains(name)) divided.shared.emplace_back(name, tensor);
    }
  }
  return divided;
}

NamedTensors strategy_tensors(const torch::nn::Module& module, const host::StrategyState& state) {
  NamedTensors tensors;
  for (const auto& [key, value] : state.values) {
    tensors.emplace_back(std::string(kStrategyPrefix) + key, tensor_of(std::as_bytes(std::span(value)), at::kByte));
  }
  const NamedTensors parameters = numbered_parameters(module);
  for (const auto& [name, buffer] : state.buckets) {
    for (const auto& [id, bytes] : buffer.values) {
      const auto& [parameter, weights] = parameters[id];
      const at::ScalarType type = buffer.dtype ? scalar_type_of(buffer.dtype) : weights.scalar_type();
      tensors.emplace_back(std::string(kStatePrefix) + name + "/" + parameter, tensor_of(bytes, type));
    }
  }
  return tensors;
}

host::StrategyState strategy_state(const torch::nn::Module& module, const TensorIndex& tensors) {
  host::StrategyState state;
  const NamedTensors parameters = numbered_parameters(module);
  for (const auto& [name, tensor] : tensors) {
    const auto* const bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    if (name.starts_with(kStrategyPrefix)) {
      state.values[name.substr(kStrategyPrefix.size())].assign(reinterpret_cast<const char*>(bytes), tensor.nbytes());
    }
    if (!name.starts_with(kStatePrefix)) continue;
    for (uint32_t id = 0; id < parameters.size(); ++id) {
      const std::string ending = "/" + parameters[id].first;
      if (!name.ends_with(ending) || name.size() < kStatePrefix.size() + ending.size()) continue;
      const std::string bucket = name.substr(kStatePrefix.size(), name.size() - kStatePrefix.size() - ending.size());
      host::StrategyState::Buffer& buffer = state.buckets[bucket];
      if (tensor.scalar_type() != parameters[id].second.scalar_type()) buffer.dtype = dtype_of(tensor.scalar_type());
      buffer.values[id].assign(bytes, bytes + tensor.nbytes());
    }
  }
  return state;
}

void check_state_of_strategy(const torch::nn::Module& module, const TensorIndex& tensors, const std::string& file) {
  const NamedTensors parameters = numbered_parameters(module);
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(kStatePrefix)) continue;
    const bool fits = std::ranges::any_of(parameters, [&, &name = name, &tensor = tensor](const auto& item) {
      return name.ends_with("/" + item.first) && dtype_of(tensor.scalar_type()) != 0 &&
             tensor.numel() == item.second.numel();
    });
    if (!fits)
      throw UserError(file + " has state of the strategy in " + host::in_quotes(name) + " that fits no weight");
  }
}

}  // namespace cohort
