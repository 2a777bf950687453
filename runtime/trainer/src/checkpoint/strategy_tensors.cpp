#include "checkpoint/strategy_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <unordered_set>

#include <ATen/ops/empty.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "state/state_tree.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

constexpr std::string_view kAnyState = "strategy state";

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

/// In the order in which strategies number them: tied ones are one.
NamedTensors numbered_parameters(const torch::nn::Module& module) {
  NamedTensors numbered;
  std::unordered_set<const void*> seen;
  for (auto& item : named_parameters_of(module)) {
    if (seen.insert(item.second.unsafeGetTensorImpl()).second) numbered.push_back(std::move(item));
  }
  return numbered;
}

at::Tensor tensor_of(std::span<const std::byte> bytes, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size() / c10::elementSize(type))}, type);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

// Keys are not cut short: the manifest tells by these texts which values belong to single ranks.
std::string quoted(std::string_view key) {
  return "'" + host::on_one_line(key) + "'";
}
std::string described(std::string_view kind, std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return std::string(kind) + " " + quoted(key);
  return std::string(kind) + " " + quoted(key.substr(slash + 1)) + " of layer " + quoted(key.substr(0, slash));
}
std::string described_state(std::string_view key) {
  return described("STATE", key);
}
std::string described_value(std::string_view key) {
  return described("value", key);
}

/// Returns whether the manifest says that each rank has its own. Earlier versions did not say which.
bool is_own(const std::vector<std::string>& per_rank, const std::string& description) {
  return std::ranges::any_of(per_rank,
                             [&](const auto& listed) { return listed == description || listed == kAnyState; });
}

}  // namespace

StrategyTensors strategy_tensors(const torch::nn::Module& module, const host::StrategyState& state) {
  StrategyTensors tensors;
  const auto section = [&](std::string_view name, bool is_shared) {
    return StateWriter(is_shared ? tensors.shared : tensors.own).in(name);
  };
  for (const auto& [key, value] : state.values) {
    section(kLayerValueSection, value.is_shared).put(key, tensor_of(std::as_bytes(std::span(value.bytes)), at::kByte));
  }
  const NamedTensors parameters = numbered_parameters(module);
  for (const auto& [name, buffer] : state.buckets) {
    for (const auto& [id, bytes] : buffer.values) {
      const auto& [parameter, weights] = parameters[id];
      const at::ScalarType type = buffer.dtype ? scalar_type_of(buffer.dtype) : weights.scalar_type();
      section(kLayerBufferSection, buffer.is_shared).in(name).put(parameter, tensor_of(bytes, type));
    }
  }
  return tensors;
}

host::StrategyState strategy_state(const torch::nn::Module& module, const TensorIndex& tensors,
                                   const std::vector<std::string>& per_rank) {
  host::StrategyState state;
  const StateReader reader(tensors, "");
  for (const auto& [key, tensor] : reader.in(kLayerValueSection).tensors()) {
    state.values[key] = {{static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()},
                         !is_own(per_rank, described_value(key))};
  }
  const NamedTensors parameters = numbered_parameters(module);
  for (const auto& [name, tensor] : reader.in(kLayerBufferSection).tensors()) {
    const auto* const bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    for (uint32_t id = 0; id < parameters.size(); ++id) {
      const std::string ending = "/" + parameters[id].first;
      if (!name.ends_with(ending)) continue;
      const std::string bucket = name.substr(0, name.size() - ending.size());
      host::StrategyState::Buffer& buffer = state.buckets[bucket];
      buffer.is_shared = !is_own(per_rank, described_state(bucket));
      if (tensor.scalar_type() != parameters[id].second.scalar_type()) buffer.dtype = dtype_of(tensor.scalar_type());
      buffer.values[id].assign(bytes, bytes + tensor.nbytes());
    }
  }
  return state;
}

void check_state_of_strategy(const torch::nn::Module& module, const TensorIndex& tensors, const std::string& file) {
  const NamedTensors parameters = numbered_parameters(module);
  for (const auto& [name, tensor] : StateReader(tensors, file).in(kLayerBufferSection).tensors()) {
    const bool fits = std::ranges::any_of(parameters, [&, &name = name, &tensor = tensor](const auto& item) {
      return name.ends_with("/" + item.first) && dtype_of(tensor.scalar_type()) != 0 &&
             tensor.numel() == item.second.numel();
    });
    if (fits) continue;
    throw UserError(file + " has state of the strategy in " +
                    host::in_quotes(std::string(kLayerBufferSection) + "/" + name) + " that fits no weight");
  }
}

std::vector<std::string> names_of(const host::StrategyState& state, bool is_shared) {
  std::vector<std::string> names;
  for (const auto& [key, buffer] : state.buckets) {
    if (buffer.is_shared == is_shared && !buffer.values.empty()) names.push_back(described_state(key));
  }
  for (const auto& [key, value] : state.values) {
    if (value.is_shared == is_shared) names.push_back(described_value(key));
  }
  return names;
}

std::string description_of(std::string_view tensor) {
  const std::string_view section = tensor.substr(0, tensor.find('/')), key = tensor.substr(section.size() + 1);
  return section == kLayerBufferSection ? described_state(key) : described_value(key);
}

}  // namespace cohort
