// Memory for LibTorch's CPU tensors in blocks that malloc can use again.
//
// LibTorch asks posix_memalign for it. In older versions of glibc (bug 30723) that takes a larger block and cuts both
// ends off; where something small settles there, the hole that a freed tensor leaves is too small for the next one of
// its size. With fresh gradients in every step a heap grew by 400 MiB so. Thread-safe, as malloc is.
#pragma once

namespace cohort {

/// From now on LibTorch's default CPU allocator is replaced for the whole process, for ever: tensors may be the last
/// objects of a program. An allocator that the program has set itself stays.
void use_malloc_blocks();

}  // namespace cohort
