// Where the ranks of a job meet: who serves the store, and how the others find it.
#pragma once

#include <chrono>
#include <memory>

#include <cohort/host/environment.hpp>
#include <cohort/host/store.hpp>

namespace cohort {

/// Opens the store of the job. Rank 0 serves it, on loopback where all ranks are on one machine, unless the launcher
/// does. A launcher that gives no address (mpirun) but a folder of the job: rank 0 publishes its port there. Throws
/// UserError where no address is known, PeerFailed at the timeout.
std::unique_ptr<host::Store> open_store(const host::Topology& topology, std::chrono::nanoseconds timeout);

}  // namespace cohort
