// A copy of a large gradient to its place past the caches: the place is not read before it is written, and what
// backward needs next stays in the cache. Threads: any; uses those of LibTorch.
#pragma once

namespace at {
class Tensor;
}

namespace cohort {

/// `to` and `from` have the same shape. Small ones, those of devices, and those laid out differently are copied as
/// ever.
void streaming_copy(const at::Tensor& to, const at::Tensor& from);

}  // namespace cohort
