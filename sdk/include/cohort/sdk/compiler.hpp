// What kernels ask of the compiler, in the words of GCC and Clang.
#pragma once

// A function that is never emitted on its own: a file compiled for one instruction set cannot lend its copy to another.
#if defined(__GNUC__)
#define COHORT_SDK_INLINE inline __attribute__((always_inline))
#else
#define COHORT_SDK_INLINE inline
#endif

// Before a loop whose steps do not depend on each other, although its pointers may be equal.
#if defined(__clang__)
#define COHORT_SDK_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define COHORT_SDK_INDEPENDENT _Pragma("GCC ivdep")
#else
#define COHORT_SDK_INDEPENDENT
#endif
