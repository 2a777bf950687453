// Makes a mesh whose ranks have proved the group's key to each other.
//
// A stranger who connects to a port while ranks connect may take the place of one. The ranks then make another mesh, on
// other ports. They tell each other through the store how each attempt has ended, so that all of them go on, or all
// fail, and nobody sends data before all are sure of each other. Borrows the store.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <cohort/api/collective.h>
#include <cohort/sdk/host.hpp>

#include "mesh.hpp"

namespace cohort::gloo {

/// Returns a mesh of all ranks of the group; this one listens on `address`. Collective. Throws UNAUTHENTICATED that
/// names a rank that answers without the key, UNAVAILABLE if ranks do not reach each other, DEADLINE_EXCEEDED with the
/// ranks that are missing.
std::unique_ptr<Mesh> connect_mesh(const cohort_connect_args& args, const std::string& address,
                                   std::chrono::steady_clock::time_point deadline, const sdk::Host& host);

}  // namespace cohort::gloo
