// Ranks that the host connects.
#pragma once

#include <memory>

#include <cohort/ranks.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Opens the plugins and makes the rank in this place, which is not connected yet. `devices` outlives it; null: the CPU
/// alone.
std::unique_ptr<Ranks> make_host_ranks(const Runtime::Setup& setup, const host::Topology& place,
                                       host::DevicePort* devices);

}  // namespace cohort
