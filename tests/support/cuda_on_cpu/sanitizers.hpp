// Calls by which the sanitizers hear about fibers; nothing in builds without them. The build says which there are
// (CUDA_ON_CPU_ASAN, CUDA_ON_CPU_TSAN): fibers and the emulator are compiled without, or ThreadSanitizer would take
// what they know of all threads for races between these.
#pragma once

#ifdef CUDA_ON_CPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CUDA_ON_CPU_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_on_cpu {

// Orders what comes before `released` in one fiber before what comes after `acquired` in another.
inline void released([[maybe_unused]] void* by) {
#ifdef CUDA_ON_CPU_TSAN
  __tsan_release(by);
#endif
}
inline void acquired([[maybe_unused]] void* by) {
#ifdef CUDA_ON_CPU_TSAN
  __tsan_acquire(by);
#endif
}

}  // namespace cuda_on_cpu
