// How ranks that know only a store find each other in MPI's world. Borrows the store.
#pragma once

#include <string>
#include <vector>

#include <cohort/api/collective.h>

#include "blocking_calls.hpp"
#include "library.hpp"

namespace cohort::mpi {

/// What is known of every rank.
struct Peer {
  std::string who;     // "rank 1", as the job counts
  int pid;             // 0: on another machine, or in another container
  bool takes_turns;    // its machine has fewer cores than ranks
  int world_rank = 0;  // in MPI_COMM_WORLD
};

/// All ranks, in order. MPI is started when all of them have come. Collective. Throws DEADLINE_EXCEEDED with the ranks
/// that did not come, and what prevents one of them on all.
std::vector<Peer> meet(const cohort_connect_args& args, Library& library, bool one_at_a_time,
                       Clock::time_point deadline);

}  // namespace cohort::mpi
