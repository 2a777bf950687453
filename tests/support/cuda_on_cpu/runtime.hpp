// The CUDA runtime's functions that the plugin calls, on the CPU: memory is the host's, and work is done when it is
// enqueued. A test says which machine there is, and which function fails next.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <driver_types.h>

namespace cuda_on_cpu {

struct Machine {
  int num_devices = 2;
  int driver_version = 13000;
  int current_device = 0;
  cudaError_t count_error = cudaSuccess;
  std::map<std::string, cudaError_t> fails;  // by function, until the test takes it out
  uint64_t num_scratch = 0;                  // pieces of memory that are borrowed from pools now
  uint64_t num_pools = 0;
  uint64_t num_copies = 0;
};

/// The one machine.
Machine& machine();

}  // namespace cuda_on_cpu
