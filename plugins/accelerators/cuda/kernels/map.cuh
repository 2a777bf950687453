// Kernels that compute element by element: out[i] = op(in[0][i], in[1][i], ...), in Math<In>, rounded once. `out` may
// be one of the inputs.
#pragma once

#include "call.hpp"
#include "share.cuh"

namespace cohort::cuda {

template <class Op, class Out, class In, unsigned kInputs>
__global__ void __launch_bounds__(kThreads)
    map_kernel(Out* out, const __grid_constant__ Inputs<In, kInputs> in, uint64_t n, Split split, const Op op) {
  constexpr unsigned kCount = kPackOf<Out, In>;
  const auto on_pack = [&](uint64_t index, const Pack<In, kCount>(&packs)[kInputs]) {
    Pack<Out, kCount> result;
    for (unsigned i = 0; i < kCount; ++i) {
      Math<In> values[kInputs];
      for (unsigned k = 0; k < kInputs; ++k) values[k] = load(packs[k].at[i]);
      result.at[i] = Store<Out>::from(op(values));
    }
    write_pack(out + split.head + index * kCount, result);
  };
  const auto on_element = [&](uint64_t index, const In(&elements)[kInputs]) {
    Math<In> values[kInputs];
    for (unsigned k = 0; k < kInputs; ++k) values[k] = load(elements[k]);
    out[index] = Store<Out>::from(op(values));
  };
  for_share<kCount>(in, n, split, share_of_grid(), on_pack, on_element);
}

/// Enqueues op on n elements of each input.
template <class In, class Op, class Out, class... Pointers>
void map(Call& call, const Op& op, uint64_t n, Out* out, Pointers... inputs) {
  if (n == 0) return;
  constexpr unsigned kCount = kPackOf<Out, In>;
  constexpr unsigned kInputs = static_cast<unsigned>(sizeof...(Pointers));
  const Inputs<In, kInputs> in{{static_cast<const In*>(inputs)...}};
  const Split split = split_of<kCount>(n, static_cast<const Out*>(out), static_cast<const In*>(inputs)...);
  call.check(launch(map_kernel<Op, Out, In, kInputs>, dim3(blocks_for<kCount>(n, split, call.most_blocks())), kThreads,
                    call.stream(), out, in, n, split, op));
}

}  // namespace cohort::cuda
