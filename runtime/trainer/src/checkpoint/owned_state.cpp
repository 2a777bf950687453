#include "checkpoint/owned_state.hpp"

#include <iterator>
#include <set>

#include "checkpoint/optimizer_state.hpp"

namespace cohort {
namespace {

/// Returns the names that state of parameters with this keeper can have.
std::set<std::string, std::less<>> names_of_state(const StepDriver& session, host::StateKeeper keeper) {
  const auto names = parameter_names(session);
  const auto is_kept_so = [&](const at::Tensor& parameter) {
    return names.contains(parameter.unsafeGetTensorImpl()) && session.state_keeper(parameter) == keeper;
  };
  std::set<std::string, std::less<>> all;
  const Optimizers& optimizers = session.optimizers();
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    all.merge(optimizer_names(optimizers[phase], names, optimizer_prefix(phase, optimizers.size()), is_kept_so));
  }
  return all;
}

}  // namespace

std::string owned_file(int rank) {
  return "optimizer-" + std::to_string(rank) + ".safetensors";
}

NamedTensors take_owned(StepDriver& session, NamedTensors& optimizer) {
  const auto names = names_of_state(session, host::StateKeeper::kThisRank);
  const auto owned = std::stable_partition(optimizer.begin(), optimizer.end(),
                                           [&](const auto& item) { return !names.contains(item.first); });
  NamedTensors taken(std::make_move_iterator(owned), std::make_move_iterator(optimizer.end()));
  optimizer.erase(owned, optimizer.end());
  return taken;
}

void drop_state_of_others(const StepDriver& session, TensorIndex& tensors) {
  const auto names = names_of_state(session, host::StateKeeper::kAnotherRank);
  std::erase_if(tensors, [&](const auto& item) { return names.contains(item.first); });
}

}  // namespace cohort
