#include "loop/require_pieces.hpp"

#include <string>

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/optimizer_kinds.hpp>
#include <cohort/script_module.hpp>

namespace cohort {
namespace {

/// `why`: what cuts the batches.
void require_pieces(const Options& options, const Module& module, const std::string& why) {
  if (!module.automatic_optimization()) {
    throw UserError(why + ": module '" + module.name() +
                    "' steps by hand, and only the loop's own steps are cut; let automatic_optimization() be true, or "
                    "leave it out");
  }
  if (!options.sync_batchnorm) return;
  throw UserError(why +
                  ": ranks of --sync-batchnorm wait for each other in each piece, and a short batch has fewer; leave "
                  "one of the two out");
}

}  // namespace

void require_pieces(const Runtime& runtime, const Module& module, const Optimizers& optimizers) {
  const host::Selection& selection = runtime.selection();
  const Options& options = runtime.options();
  const std::string pieces = options.pieces == 0 ? "auto" : std::to_string(options.pieces);
  if (pieces != "1") require_pieces(options, module, "--pieces=" + pieces);
  if (selection.parts == 0) return;
  const std::string strategy = "--strategy=" + selection.strategy.name;
  require_pieces(options, module, strategy);
  for (const auto& item : module.named_modules({}, /*include_self=*/false)) {
    if (runtime.devices().size() == 1 || !dynamic_cast<const ScriptModule*>(item.value().get())) continue;
    throw UserError(strategy + ": module '" + item.key() +
                    "' is a TorchScript module, which its compiler changes while it runs, so that it cannot be "
                    "cut; choose --devices=1, or --strategy=ddp");
  }
  if (runtime.device().is_cpu() || runtime.devices().size() == 1) return;
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    if (!needs_closure(optimizers[phase])) continue;
    throw UserError(strategy +
                    ": LBFGS puts all weights into one tensor, and they lie on several devices; choose another "
                    "optimizer, or --devices=1");
  }
}

}  // namespace cohort
