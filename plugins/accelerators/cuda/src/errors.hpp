// Errors of the CUDA runtime as sentences: what failed, where, and how to mend it.
#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>

#include <cohort/sdk/error.hpp>

namespace cohort::cuda {

/// Returns the error of what was tried: "cuda: scale: ...". `device`: where, or -1 for none in particular.
sdk::Error error_of(cudaError_t error, const std::string& tried, int32_t device = -1);

/// Returns the error of an allocation, with what is free.
sdk::Error out_of_memory(uint64_t nbytes, const std::string& kind);

/// Throws unless the call succeeded.
inline void check(cudaError_t error, const char* tried, int32_t device = -1) {
  if (error != cudaSuccess) throw error_of(error, tried, device);
}

}  // namespace cohort::cuda
