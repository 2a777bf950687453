// Compiler hints for kernels, as GCC and Clang spell them.
#pragma once

// An always inlined function, so that no file uses a copy compiled for another instruction set.
#if defined(__GNUC__)
#define COHORT_SDK_INLINE inline __attribute__((always_inline))
#else
#define COHORT_SDK_INLINE inline
#endif

// A hint before a loop: its iterations are independent, although its pointers may be equal.
#if defined(__clang__)
#define COHORT_SDK_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define COHORT_SDK_INDEPENDENT _Pragma("GCC ivdep")
#else
#define COHORT_SDK_INDEPENDENT
#endif
