/* The kernels of one device type: a typed table in which every entry may be null.
 *
 * All pointers are memory of that device; `n` counts elements. Input and output may be the same pointer but must not
 * overlap otherwise. Threads: [any-thread]. The table is frozen under its id; more kernels get a new table.
 */
#ifndef COHORT_API_KERNELS_H
#define COHORT_API_KERNELS_H

#include "status.h"
#include "tensor.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

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
} cohort_kernels_1;

COHORT_EXTERN_C_END
#endif
