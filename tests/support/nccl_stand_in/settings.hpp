// Variables of the environment that say how the stand-in for NCCL behaves; read at each use.
//
//   NCCL_STANDIN_VERSION=22809     its version; NCCL_MULTI_RANK_GPU_ENABLE=1 counts from 23003 on
//   NCCL_STANDIN_POLLS=2           how often a communicator is in progress before it has done something
//   NCCL_STANDIN_DELAY_US=200      the longest pause before an operation runs, which is random
//   NCCL_STANDIN_HANG=RANK:N       the N-th group (from 0) of this rank of a communicator never comes
//   NCCL_STANDIN_FAIL=RANK:N       it fails
//   NCCL_STANDIN_EVENT_ERROR=700   what each question for an event is answered with
//   NCCL_STANDIN_CALLS=FOLDER      each process adds a line to a file of its own there for each group, with its
//   communicator
#pragma once

#include <cstdlib>
#include <string>

namespace nccl_stand_in {

inline int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text && *text ? std::atoi(text) : otherwise;
}

inline int version() {
  return number_in("NCCL_STANDIN_VERSION", 22809);
}

inline bool allows_ranks_on_one_device() {
  return version() >= 23003 && number_in("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1;
}

/// Returns whether the variable names this group of this rank.
inline bool names_group(const char* variable, int rank, int number) {
  const char* const text = std::getenv(variable);
  return text && text == std::to_string(rank) + ":" + std::to_string(number);
}

}  // namespace nccl_stand_in
