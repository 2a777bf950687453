// Which strategy a run uses: the user's, or the runtime's choice with its reason.
#pragma once

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/selection.hpp>

#include "selection/devices.hpp"

namespace cohort::host {

/// Fills in strategy, reasons and warnings; devices, nodes and layers are known. Throws UserError if the strategy that
/// the user chose, or a layer, cannot serve this job.
void choose_strategy(Selection& selection, PluginHost& plugins, const Options& options,
                     const AcceleratorChoice& accelerator, const Topology& topology, const StartingRanks& starting);

}  // namespace cohort::host
