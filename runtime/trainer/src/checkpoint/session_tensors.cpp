#include "checkpoint/session_tensors.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <cohort/host/error.hpp>
#include <cohort/sdk/hash.hpp>

#include "checkpoint/loop_state.hpp"
#include "checkpoint/strategy_tensors.hpp"
#include "gather/gathered.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

// Told apart by 64 bits that depend on every bit of the tensor; nobody chooses weights to deceive it.
uint64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  sdk::Hash hash({flat.nbytes()});
  hash.add(flat.const_data_ptr(), flat.nbytes());
  return hash.value();
}

Fingerprints fingerprints_of(const TensorIndex& tensors) {
  Fingerprints prints;
  for (const auto& [name, tensor] : tensors) prints.emplace(name, fingerprint(tensor));
  return prints;
}

/// Names that some ranks have with other bits, or do not have; true if all ranks have the name.
using DifferingNames = std::map<std::string, bool, std::less<>>;

DifferingNames differing_names(const std::vector<Fingerprints>& ranks) {
  std::set<std::string> names;
  for (const auto& prints : ranks) {
    for (const auto& [name, print] : prints) names.insert(name);
  }
  DifferingNames differing;
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

/// Throws TrainingFailed if ranks differ in what a layer of the strategy calls shared.
void check_shared_state(const std::vector<Fingerprints>& ranks, const DifferingNames& differing, uint64_t step) {
  for (const auto& [name, everywhere] : differing) {
    if (policy_of(name) != StatePolicy::kStrategy) continue;
    const auto print_of = [&name = name](const Fingerprints& prints) {
      const auto found = prints.find(name);
      return found == prints.end() ? std::nullopt : std::optional(found->second);
    };
    const auto other = std::ranges::find_if(
        ranks, [&](const Fingerprints& prints) { return print_of(prints) != print_of(ranks.front()); });
    throw TrainingFailed("after step " + std::to_string(step) + " rank " + std::to_string(other - ranks.begin()) +
                         " has other bytes than rank 0 in " + description_of(name) +
                         ", which the layer calls shared by all ranks; it has to compute the same on all ranks, or "
                         "to leave out the flag SHARED");
  }
}

bool holds(const NamedTensors& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
}

std::array<const NamedTensors*, 4> groups_of(const SessionTensors& tensors) {  // that a checkpoint gets
  return {&tensors.parameters, &tensors.buffers, &tensors.optimizer, &tensors.strategy};
}

TensorIndex index_of(const SessionTensors& tensors) {
  TensorIndex index;
  for (const auto* group : groups_of(tensors)) {
    for (const auto& [name, tensor] : *group) index.emplace(name, tensor);
  }
  for (const auto& [name, tensor] : tensors.module) index.emplace(name, tensor);
  return index;
}

}  // namespace

NamedTensors named_weights_of(const StepDriver& session) {
  NamedTensors tensors = named_parameters_of(session.module());
  for (auto& [name, tensor] : tensors) tensor = session.weights_of(tensor);
  return tensors;
}

void show_validated(SessionTensors& tensors, const NamedTensors& validated) {
  for (const auto& [name, tensor] : validated) {
    for (NamedTensors* const group : {&tensors.parameters, &tensors.buffers}) {
      const auto trained = std::ranges::find(*group, name, &NamedTensors::value_type::first);
      if (trained == group->end()) continue;
      trained->first = trained_name(name);
      group->emplace_back(name, tensor);
      break;
    }
  }
}

TensorsByPlace divide_by_rank(StepDriver& session, const SessionTensors& tensors) {
  const TensorIndex index = index_of(tensors);
  DifferingNames differing;
  if (session.runtime().world_size() > 1) {
    const auto ranks = gathered(session.runtime(), fingerprints_of(index), "fingerprints of its tensors");
    differing = differing_names(ranks);
    check_shared_state(ranks, differing, session.steps());
  }
  TensorsByPlace divided;
  for (const auto& [name, everywhere] : differing) {  // in the same order on all ranks
    if (policy_of(name) == StatePolicy::kCompared) {
      divided.module_differs = true;
      continue;
    }
    const at::Tensor* const own = find_tensor(index, name);
    if (own) divided.own.emplace_back(name, *own);
    const bool is_buffer = holds(tensors.buffers, name);
    const bool averages = everywhere && !is_buffer && own->is_floating_point();
    if (averages) divided.shared.emplace_back(name, session.all_reduce(*own, /*mean=*/true));
    if (!averages && own) divided.shared.emplace_back(name, *own);
    divided.parameters_differ = divided.parameters_differ || holds(tensors.parameters, name);
    const bool is_optimizer = policy_of(name) == StatePolicy::kOptimizer, is_archive = name.ends_with(".archive");
    divided.optimizer_differs = divided.optimizer_differs || (is_optimizer && !is_archive);
    divided.optimizer_is_tied = divided.optimizer_is_tied || (is_optimizer && (is_archive || !everywhere));
  }
  for (const auto* group : groups_of(tensors)) {
    for (const auto& [name, tensor] : *group) {
      if (!differing.contains(name)) divided.shared.emplace_back(name, tensor);
    }
  }
  return divided;
}

}  // namespace cohort
