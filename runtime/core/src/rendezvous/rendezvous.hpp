// The meeting of a job's ranks: rank 0 serves a store, and the others find it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include <cohort/host/environment.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/store.hpp>

namespace cohort {

struct Rendezvous {
  std::optional<host::Key> secret = {};  ///< of the job
  bool is_insecure = false;              ///< the user trusts the network between the nodes
  std::chrono::nanoseconds timeout{};
};

/// Opens the store of the job: on one machine by a socket that only processes of the same user can use, else by TCP.
/// Throws UserError if no address is known, or if strangers could join ranks of several machines that were started by
/// hand; under a launcher of others that is a warning. Throws PeerFailed at the timeout.
std::unique_ptr<host::Store> open_store(const host::Topology& topology, const Rendezvous& rendezvous, host::Log& log);

}  // namespace cohort
