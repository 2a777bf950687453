/* Kernels: tables of functions that compute on the tensors of one device type.
 *
 * An accelerator has tables by id (cohort_accelerator_vt.kernels); strategies look them up by id (host/kernels.h). An
 * accelerator fills any entries of the tables in this header and leaves the rest null. The host completes them: on CPU
 * with portable code, on another device with functions that copy to pinned host memory, compute there and copy back. So
 * a strategy finds every entry. Tables with ids of a vendor's own ("org.example.topk/1") reach strategies as they are.
 *
 * A plugin sets struct_size and leaves `accelerator` null. The host sets it: it is the first argument of every
 * function. A later version adds kernels at the end of a table; COHORT_COVERS tells if one is there.
 *
 * Pointers are memory of the stream's device, aligned to their elements, and may be null if nothing is read or written.
 * Arrays of pointers are host memory and are read before the call returns. `n` counts elements. Output and one input
 * may be the same pointer if their elements have the same size; else memory does not overlap. `stream` orders the
 * functions and is never null; on CPU they are done when they return. Results of reductions are memory of the device,
 * too, aligned to 8 bytes. A function returns COHORT_UNIMPLEMENTED for an unknown data type: the host then runs its
 * own. It returns COHORT_INVALID_ARGUMENT for a known type that the kernel is not for. `a->host->fail` leaves a
 * message. Threads: [any-thread].
 */
#ifndef COHORT_API_KERNELS_H
#define COHORT_API_KERNELS_H

#include "status.h"
#include "tensor.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_KERNELS_CORE_ID "cohort.kernels.core/1"
#define COHORT_KERNELS_MINMAX_UINT8_ID "cohort.kernels.minmax_uint8/1"
#define COHORT_KERNELS_ADAM_ID "cohort.kernels.adam/1"
#define COHORT_KERNELS_RING_ID "cohort.kernels.ring/1"

struct cohort_accelerator;

/* cohort.kernels.core/1. Floating types are computed in themselves, 16-bit ones in float32, without contraction. */
typedef struct cohort_kernels_core_1 {
  uint32_t struct_size;
  uint32_t reserved0;
  struct cohort_accelerator* accelerator;
  /* Fills: out[i] = value; every type: integers take the nearest value of their range, NaN becomes 0 */
  cohort_status (*fill)(struct cohort_accelerator* a, void* out, int32_t dtype, uint64_t n, double value,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Copies: out = in, `nbytes` bytes */
  cohort_status (*copy)(struct cohort_accelerator* a, void* out, const void* in, uint64_t nbytes,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Scales: out[i] = factor x in[i]; floating types */
  cohort_status (*scale)(struct cohort_accelerator* a, void* out, const void* in, int32_t dtype, uint64_t n,
                         double factor, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Adds: out[i] = p x x[i] + q x out[i]; floating types */
  cohort_status (*axpby)(struct cohort_accelerator* a, void* out, const void* x, int32_t dtype, uint64_t n, double p,
                         double q, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Converts: out[i] = in[i], between floating types, rounded to nearest even */
  cohort_status (*cast)(struct cohort_accelerator* a, void* out, int32_t out_dtype, const void* in, int32_t in_dtype,
                        uint64_t n, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Sums: out[i] = factor x (inputs[0][i] + inputs[1][i] + ...), left to right; floating types */
  cohort_status (*sum_of_n)(struct cohort_accelerator* a, void* out, const void* const* inputs, uint64_t num_inputs,
                            int32_t dtype, uint64_t n, double factor, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Computes *result = sum of in[i]^2, accumulated in float64; floating types */
  cohort_status (*square_sum)(struct cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, double* result,
                              const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Computes *result = sum of x[i] x y[i], accumulated in float64; floating types */
  cohort_status (*dot)(struct cohort_accelerator* a, const void* x, const void* y, int32_t dtype, uint64_t n,
                       double* result, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Sets *found = 1 if any in[i] is NaN or infinite, else 0; floating types */
  cohort_status (*found_inf)(struct cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                             const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_kernels_core_1;
#define COHORT_KERNELS_CORE_SIZE_1_0 COHORT_END(cohort_kernels_core_1, found_inf)

/* Chunks of min-max-uint8: floating elements as one byte each. In memory, little-endian:
 *
 *   bytes 0..3   float32: the least element
 *   bytes 4..7   float32: the greatest element
 *   bytes 8..    one code for each element
 *   up to a multiple of 8 bytes, not read and not written
 *
 * Arithmetic is float32 without contraction, except for the division of `scale`: that is float64, rounded to float32.
 *
 *   m = max(|min|, |max|)      scale = 255 / (max - min + 1e-7 m), at most the greatest float32; 0 if m < 1e-30
 *   upper = rint(max x scale)  lower = upper - 255          rint rounds halves to even
 *   code = rint(x x scale) - lower, not below 0, not above 255
 *   x' = (code + lower) / scale; 0 if scale is 0
 *
 * All x' are multiples of 1 / scale: zeros stay zeros, |x' - x| <= 0.5 / scale and a few roundings. A chunk with an
 * element that is NaN or infinite, or becomes so in float32, has NaN (0x7fc00000) as min and max and decodes to NaN
 * everywhere. A chunk without elements has zeros. A minimum or maximum of -0 is written as 0. The bits do not depend on
 * the device. */
#define COHORT_MINMAX_UINT8_HEADER_NBYTES 8u
/* Bytes of a chunk of `n` elements; n is a uint64_t. */
#define COHORT_MINMAX_UINT8_NBYTES(n) (COHORT_MINMAX_UINT8_HEADER_NBYTES + ((n) + 7u) / 8u * 8u)

/* cohort.kernels.minmax_uint8/1. Each call works on `num_chunks` chunks of `chunk_numel` elements each. Chunk c begins
 * c x COHORT_MINMAX_UINT8_NBYTES(chunk_numel) bytes after `chunks`, which is aligned to 4 bytes. Elements are of
 * floating types, and chunks do not overlap with them. */
typedef struct cohort_kernels_minmax_uint8_1 {
  uint32_t struct_size;
  uint32_t reserved0;
  struct cohort_accelerator* accelerator;
  /* Encodes: chunk c = in[c x chunk_numel + i] / divisor, both rounded to float32 first; the divisor is above 0. */
  cohort_status (*encode)(struct cohort_accelerator* a, void* chunks, const void* in, int32_t dtype,
                          uint64_t chunk_numel, uint64_t num_chunks, double divisor,
                          const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Decodes: out[c x chunk_numel + i] = element i of chunk c */
  cohort_status (*decode)(struct cohort_accelerator* a, void* out, int32_t dtype, const void* chunks,
                          uint64_t chunk_numel, uint64_t num_chunks, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Sums chunks: out[i] = start[i] + element i of chunk 0 + element i of chunk 1 + ..., left to right, for chunk_numel
   * elements in all; computed in the type (16-bit types: in float32). `start` may be `out`, or null: then the sum
   * begins with chunk 0. There is at least one chunk. */
  cohort_status (*decode_add)(struct cohort_accelerator* a, void* out, const void* start, int32_t dtype,
                              const void* chunks, uint64_t chunk_numel, uint64_t num_chunks,
                              const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_kernels_minmax_uint8_1;
#define COHORT_KERNELS_MINMAX_UINT8_SIZE_1_0 COHORT_END(cohort_kernels_minmax_uint8_1, decode_add)

/* cohort.kernels.adam/1 */
typedef struct cohort_kernels_adam_1 {
  uint32_t struct_size;
  uint32_t reserved0;
  struct cohort_accelerator* accelerator;
  /* Updates weight[i] = keep x weight[i] - rate x momentum[i] / (sqrt(square[i]) / correction + eps), the product
   * before the division; floating types, all three the same, computed in the type (16-bit types: in float32). Adam and
   * AdamW with keep = 1 - lr x decoupled decay, rate = lr / (1 - beta1^t), correction = sqrt(1 - beta2^t) (Kingma and
   * Ba, 2015; Loshchilov and Hutter, 2019). If square[i] is 0, the result is keep x weight[i]: the element's scale is
   * unknown, and momentum[i] / eps would be huge. */
  cohort_status (*step)(struct cohort_accelerator* a, void* weight, const void* momentum, const void* square,
                        int32_t dtype, uint64_t n, double keep, double rate, double correction, double eps,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_kernels_adam_1;
#define COHORT_KERNELS_ADAM_SIZE_1_0 COHORT_END(cohort_kernels_adam_1, step)

/* cohort.kernels.ring/1 */
typedef struct cohort_kernels_ring_1 {
  uint32_t struct_size;
  uint32_t reserved0;
  struct cohort_accelerator* accelerator;
  /* Updates x[i] = x[i] + left[i] / 3 + right[i] / 3 - 5 x own[i] / 3, left to right, the product before the division;
   * floating types, all the same, computed in the type (16-bit types: in float32). A rank of a ring tells its
   * neighbours this change of its weights x, if own, left and right are the weights that it and they know of each other
   * (Tang et al., "Communication compression for decentralized training", 2018). */
  cohort_status (*change)(struct cohort_accelerator* a, void* x, const void* left, const void* right, const void* own,
                          int32_t dtype, uint64_t n, const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_kernels_ring_1;
#define COHORT_KERNELS_RING_SIZE_1_0 COHORT_END(cohort_kernels_ring_1, change)

COHORT_EXTERN_C_END
#endif
