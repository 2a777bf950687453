// Checkpoints of a loop of the user's own (the Trainer writes and reads its own), and the module in a checkpoint.
#pragma once

#include <concepts>
#include <filesystem>
#include <memory>

#include <cohort/hyper_parameters.hpp>
#include <cohort/session.hpp>

namespace cohort {

class Module;

// Between steps, and collective: all ranks see the same folder.

/// Writes a checkpoint into the folder, beside earlier ones of which the newest (--keep-checkpoints) stay. Throws the
/// same error on all ranks: UserError if it cannot be written, TrainingFailed if the ranks' weights differ.
void save(Session& session, const std::filesystem::path& folder);

/// Goes on from this checkpoint, or from the newest whole one of a folder. Throws the same UserError on all ranks if it
/// does not fit the session, which is unchanged then.
void load(Session& session, const std::filesystem::path& checkpoint);

// On each rank by itself, for a module that is to validate, test, predict or be trained anew. `checkpoint` is one, a
// link to one ("best"), or a folder of them, of which the newest is read. These throw UserError that names the file.

/// Returns what Module::save_hyperparameters was given.
HyperParameters read_hyperparameters(const std::filesystem::path& checkpoint);
/// Gives the module the weights, the buffers, and what its save_state has kept.
void load_module(Module& module, const std::filesystem::path& checkpoint);

/// Makes a Net by `Net::from(hyperparameters)`, by a constructor that takes HyperParameters, or without arguments, and
/// gives it what the checkpoint holds.
template <class Net>
std::shared_ptr<Net> load_from_checkpoint(const std::filesystem::path& checkpoint) {
  std::shared_ptr<Net> net;
  if constexpr (requires(const HyperParameters& parameters) {
                  { Net::from(parameters) } -> std::convertible_to<std::shared_ptr<Net>>;
                }) {
    net = Net::from(read_hyperparameters(checkpoint));
  } else if constexpr (std::constructible_from<Net, const HyperParameters&>) {
    net = std::make_shared<Net>(read_hyperparameters(checkpoint));
  } else {
    net = std::make_shared<Net>();
  }
  load_module(*net, checkpoint);
  return net;
}

}  // namespace cohort
