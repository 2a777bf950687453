// Variables of the environment that say how the stand-in for NCCL behaves; read at each use. In a test
// nccl_stand_in_set (counters.hpp) goes before them.
//
//   NCCL_STANDIN_VERSION=22809     its version; NCCL_MULTI_RANK_GPU_ENABLE=1 counts from 23003 on
//   NCCL_STANDIN_POLLS=2           how often a communicator is in progress before it has done something
//   NCCL_STANDIN_DELAY_US=200      the longest pause before an operation runs, which is random
//   NCCL_STANDIN_HANG=RANK:N       the N-th group (from 0) of this rank of a communicator never comes
//   NCCL_STANDIN_FAIL=RANK:N       it fails
//   NCCL_STANDIN_SILENT=1          nobody hears that a rank is gone
//   NCCL_STANDIN_EVENT_ERROR=700   what each question for an event is answered with
//   NCCL_STANDIN_POOL_ERROR=1      what each setting of a pool of memory is answered with
//   NCCL_STANDIN_CALLS=FOLDER      each process adds a line to a file of its own there for each group, with its
//   communicator
#pragma once

#include <cstdlib>
#include <string>

#include "watched.hpp"

namespace nccl_stand_in {

inline int number_in(const char* variable, int otherwise) {
  const std::string text = text_of(variable);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

inline int version() {
  return number_in("NCCL_STANDIN_VERSION", 22809);
}

inline bool allows_ranks_on_one_device() {
  return version() >= 23003 && number_in("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1;
}

/// Returns whether the variable names this group of this rank.
inline bool names_group(const char* variable, int rank, int number) {
  return text_of(variable) == std::to_string(rank) + ":" + std::to_string(number);
}

}  // namespace nccl_stand_in
