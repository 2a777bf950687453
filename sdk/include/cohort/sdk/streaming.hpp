// Copies past the cache, for what is not read again soon: the target's lines are neither read first nor kept.
//
// Inlined everywhere, so that files built for different instruction sets share no code. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compiler.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cohort::sdk {

/// The arrays do not overlap. Another thread sees the copy after streaming_fence().
COHORT_SDK_INLINE void streaming_copy(void* to, const void* from, size_t nbytes) {
#if defined(__SSE2__)
  constexpr size_t kWord = sizeof(__m128i);
  auto* const out = static_cast<std::byte*>(to);
  const auto* const in = static_cast<const std::byte*>(from);
  const size_t head = (kWord - reinterpret_cast<uintptr_t>(to) % kWord) % kWord;
  const size_t misaligned = head < nbytes ? head : nbytes;
  std::memcpy(out, in, misaligned);
  size_t done = misaligned;
  for (; done + kWord <= nbytes; done += kWord) {
    const __m128i word = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + done));
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + done), word);
  }
  std::memcpy(out + done, in + done, nbytes - done);
#else
  std::memcpy(to, from, nbytes);
#endif
}

COHORT_SDK_INLINE void streaming_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace cohort::sdk
