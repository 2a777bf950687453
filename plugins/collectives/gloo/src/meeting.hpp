// How ranks that know only a store tell each other who they are and where they can be reached. Borrows the store.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <cohort/api/collective.h>

namespace cohort::gloo {

/// What is known of every rank.
struct Peer {
  std::string who;      // "rank 1 (pid 4711 on host)"
  std::string address;  // that it listens on, in numbers
};

/// All ranks, in order. The address is that of `interface`; where none is named: loopback if all ranks are on one
/// machine, else the one that the job's master address is reached from. Collective. Throws DEADLINE_EXCEEDED with the
/// ranks that are missing; one rank's mistake is thrown on all ranks.
std::vector<Peer> meet(const cohort_connect_args& args, const std::string& interface,
                       std::chrono::steady_clock::time_point deadline);

/// For a rank that could not connect, and so tells the others: who of them does not tell the same, "" where all do. All
/// that live and wait for the same fail together, as they connect to everybody.
std::string who_is_missing(const cohort_connect_args& args, const std::vector<Peer>& peers);

}  // namespace cohort::gloo
