/* The kernels of one device type: a typed table in which every entry may be null.
 *
 * All pointers are memory of that device; `n` counts elements. Input and output may be the same pointer but must not
 * overlap otherwise. Threads: [any-thread]. The table is frozen from 1.0 under its id; more kernels get a new table.
 */
#ifndef COHORT_API_KERNELS_H
#define COHORT_API_KERNELS_H

#include "status.h"
#include "tensor.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

/* Chunks of min-max-uint8: floating elements as one byte each. In memory, little-endian:
 *
 *   bytes 0..3   float32: the least element
 *   bytes 4..7   float32: the greatest element
 *   bytes 8..    one code for each element
 *   up to a multiple of 8 bytes, not read and not written
 *
 * Arithmetic is float32 without contraction, but for the division of `scale`, which is float64, rounded to float32:
 *
 *   m = max(|min|, |max|)      scale = 255 / (max - min + 1e-7 m), at most the greatest float32; 0 where m < 1e-30
 *   upper = rint(max x scale)  lower = upper - 255          rint rounds halves to even
 *   code = rint(x x scale) - lower, not below 0, not above 255
 *   x' = (code + lower) / scale; 0 where scale is 0
 *
 * x' are multiples of 1 / scale: zeros stay zeros, |x' - x| <= 0.5 / scale and a few roundings. A chunk with an element
 * that is NaN or infinite, or becomes so in float32, has NaN (0x7fc00000) as min and max and decodes to NaN everywhere;
 * one of no elements has zeros. A minimum or maximum of -0 is written as 0. The bits do not depend on the device. */
#define COHORT_MINMAX_UINT8_HEADER_NBYTES 8u
/* Bytes of a chunk of `n` elements, a uint64_t. */
#define COHORT_MINMAX_UINT8_NBYTES(n) (COHORT_MINMAX_UINT8_HEADER_NBYTES + ((n) + 7u) / 8u * 8u)

typedef struct cohort_kernels_1 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* out[i] = value */
  cohort_status (*fill)(void* out, int32_t dtype, uint64_t n, double value,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out = in */
  cohort_status (*copy)(void* out, const void* in, uint64_t nbytes, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out[i] = factor x in[i]; floating types, computed in the type (16-bit types: in float32) */
  cohort_status (*scale)(void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                         const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out[i] = a x x[i] + b x out[i]; floating types */
  cohort_status (*axpby)(void* out, const void* x, int32_t dtype, uint64_t n, double a, double b,
                         const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out[i] = in[i], between floating types, rounded to nearest even */
  cohort_status (*cast)(void* out, int32_t out_dtype, const void* in, int32_t in_dtype, uint64_t n,
                        const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out[i] = factor x (inputs[0][i] + inputs[1][i] + ...), left to right; 16-bit types are summed in float32 */
  cohort_status (*sum_of_n)(void* out, const void* const* inputs, uint64_t num_inputs, int32_t dtype, uint64_t n,
                            double factor, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* *result = sum of in[i]^2, accumulated in float64; host memory */
  cohort_status (*square_sum)(const void* in, int32_t dtype, uint64_t n, double* result,
                              const cohort_stream* stream) COHORT_NOEXCEPT;
  /* *result = sum of a[i] x b[i], accumulated in float64; host memory */
  cohort_status (*dot)(const void* a, const void* b, int32_t dtype, uint64_t n, double* result,
                       const cohort_stream* stream) COHORT_NOEXCEPT;
  /* *found = 1 where any in[i] is NaN or infinite, else 0; host memory */
  cohort_status (*found_inf)(const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                             const cohort_stream* stream) COHORT_NOEXCEPT;
  /* chunk = in[i] / divisor, both rounded to float32 first, as min-max-uint8; floating types. Chunks begin at a
   * multiple of 4 bytes and do not overlap with other memory. */
  cohort_status (*encode_minmax_uint8)(void* chunk, const void* in, int32_t dtype, uint64_t n, double divisor,
                                       const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out[i] = element first + i of a chunk; floating types */
  cohort_status (*decode_minmax_uint8)(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t n,
                                       const cohort_stream* stream) COHORT_NOEXCEPT;
  /* out[i] = out[i] + element first + i of a chunk; floating types, computed in the type (16-bit types: in float32) */
  cohort_status (*decode_add_minmax_uint8)(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t n,
                                           const cohort_stream* stream) COHORT_NOEXCEPT;
  /* weight[i] = keep x weight[i] - rate x momentum[i] / (sqrt(square[i]) / correction + eps), the product before the
   * division; floating types, all three the same, computed in the type (16-bit types: in float32). Adam and AdamW with
   * keep = 1 - lr x decoupled decay, rate = lr / (1 - beta1^t), correction = sqrt(1 - beta2^t). Where square[i] is 0
   * the element only keeps: nothing is known of its scale, and momentum[i] / eps would be huge. */
  cohort_status (*adam)(void* weight, const void* momentum, const void* square, int32_t dtype, uint64_t n, double keep,
                        double rate, double correction, double eps, const cohort_stream* stream) COHORT_NOEXCEPT;
} cohort_kernels_1;

COHORT_EXTERN_C_END
#endif
