// Ordinary memory for buckets, if the collective has none of its own.
#pragma once

#include <cstdint>

namespace cohort::host {

/// Returns zero-filled memory, aligned to 64 bytes; large pieces lie on huge pages if the kernel has some.
void* alloc_cpu_memory(uint64_t nbytes);
void free_cpu_memory(void* memory);

}  // namespace cohort::host
