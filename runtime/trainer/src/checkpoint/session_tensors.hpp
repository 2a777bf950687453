// The tensors of a session that a checkpoint holds, and which of them are the same on all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <cohort/safetensors.hpp>
#include <cohort/step_driver.hpp>

#include "state/tensor_index.hpp"

namespace cohort {

/// Returns the weights that are trained, by the same names: master weights in place of rounded copies.
NamedTensors named_weights_of(const StepDriver& session);

/// This rank's; all tensors are borrowed.
struct SessionTensors {
  NamedTensors parameters, buffers, optimizer;
  NamedTensors strategy{};  ///< what its layers call shared by all ranks
  NamedTensors module{};    ///< state of the module that rank 0's stands for; compared alone
};

/// Gives the names of weights and buffers to those that were validated, and the trained ones another name.
void show_validated(SessionTensors& tensors, const NamedTensors& validated);

/// What goes where, and what differs between ranks.
struct TensorsByPlace {
  NamedTensors shared;  ///< on rank 0: equal on all ranks; where they differ floating numbers' mean, else rank 0's
  NamedTensors own;     ///< this rank's tensors that differ between ranks
  bool parameters_differ = false;
  bool module_differs = false;     ///< state of the module
  bool optimizer_differs = false;  ///< an archive of an optimizer is not looked into and never differs
  bool optimizer_is_tied = false;  ///< some of what differs has no mean: an archive, or state that a rank lacks
};

/// A 64-bit hash of each tensor, by its name; ranks send them to each other.
using Fingerprints = std::map<std::string, uint64_t, std::less<>>;

/// Collective; changes no tensor. Throws TrainingFailed on all ranks if they differ in what a layer calls shared, and
/// PeerFailed if a rank's message cannot be read.
TensorsByPlace divide_by_rank(StepDriver& session, const SessionTensors& tensors);

}  // namespace cohort
