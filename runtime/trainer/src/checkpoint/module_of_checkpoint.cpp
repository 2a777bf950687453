// The module in a checkpoint, read by one process without a session.
#include <cohort/callback.hpp>
#include <cohort/checkpoint.hpp>
#include <cohort/host/error.hpp>
#include <cohort/module.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "files/file_digest.hpp"
#include "state/state_tree.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

fs::path newest_of(const fs::path& where) {
  if (is_checkpoint(where)) return where;
  for (const auto& found : find_checkpoints(where)) {
    if (found.problem.empty()) return found.path;
  }
  throw UserError("there is no checkpoint in '" + shown(where) +
                  "'; name one, or a folder that --checkpoint-dir has filled");
}

SafetensorsFile shared_tensors(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kSharedFile;
  if (digest_of_file(file) != read_manifest(checkpoint).files.at(kSharedFile)) {
    throw UserError(shown(file) + " is not as it was written; load another checkpoint");
  }
  return read_safetensors(file);
}

}  // namespace

HyperParameters read_hyperparameters(const fs::path& checkpoint) {
  return read_manifest(newest_of(checkpoint)).hyperparameters;
}

void load_module(Module& module, const fs::path& checkpoint) {
  const fs::path newest = newest_of(checkpoint);
  const TensorIndex tensors = index_of(shared_tensors(newest).tensors);
  SafetensorsFile model;
  for (const auto& [name, tensor] : tensors) {
    if (policy_of(name) == StatePolicy::kModel) model.tensors.emplace_back(name, tensor);
  }
  const CallbackState state = StateReader(tensors, shown(newest)).in(kModuleSection).values();
  load_tensors(module, model, shown(newest), /*strict=*/true);
  if (!state.tensors().empty()) module.load_state(state);
}

}  // namespace cohort
