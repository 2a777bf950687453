#include "communicator/cpu_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace cohort::host {

void* alloc_cpu_memory(uint64_t nbytes) {
  constexpr uint64_t kCacheLine = 64, kHugePage = 2 << 20;
  const uint64_t alignment = nbytes < kHugePage ? kCacheLine : kHugePage;
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment, std::max(nbytes, kCacheLine)) != 0) throw std::bad_alloc();
  // Weights and states are read and written as a whole in every step: fewer pages to fault in and to look up.
  if (alignment == kHugePage) ::madvise(memory, nbytes, MADV_HUGEPAGE);
  std::memset(memory, 0, nbytes);
  return memory;
}

void free_cpu_memory(void* memory) {
  std::free(memory);
}

}  // namespace cohort::host
