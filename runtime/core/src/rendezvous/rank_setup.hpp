// The setup of a rank by a program's options.
#pragma once

#include <cohort/host/connected_rank.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Returns the setup of the rank in this place. `devices` outlives the rank; null: the CPU alone.
host::RankSetup rank_setup(const Runtime::Setup& setup, const host::Topology& place, host::DevicePort* devices);

}  // namespace cohort
