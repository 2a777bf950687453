/* Tensors and streams as plugins see them: plain, fixed-width, borrowed.
 *
 * Ownership: the host owns the memory, the shape and the name. A plugin may use them until the call returns; views from
 * `buckets/1` live as long as buckets.h says. Both structs stand in arrays: they are frozen from 1.0 and never grow.
 */
#ifndef COHORT_API_TENSOR_H
#define COHORT_API_TENSOR_H

#include <stdint.h>

/* Data types. Values are part of the ABI. */
#define COHORT_FLOAT32 1
#define COHORT_FLOAT64 2
#define COHORT_FLOAT16 3
#define COHORT_BFLOAT16 4
#define COHORT_INT8 5
#define COHORT_INT16 6
#define COHORT_INT32 7
#define COHORT_INT64 8
#define COHORT_UINT8 9
#define COHORT_UINT64 10
#define COHORT_BOOL 11

/* Device types, numbered as in DLPack. */
#define COHORT_DEVICE_CPU 1
#define COHORT_DEVICE_CUDA 2
#define COHORT_DEVICE_ROCM 10
#define COHORT_DEVICE_EXT 12 /* another type, brought by an accelerator plugin; PrivateUse1 in LibTorch */

/* Tensor flags. A flat view of a bucket holds the elements of each parameter in memory order: a part has the strides of
 * its parameter. */
#define COHORT_TENSOR_DENSE 1u /* elements lie without gaps, in the order of the strides, such as channels last */
#define COHORT_TENSOR_READ_ONLY 2u
#define COHORT_TENSOR_REQUIRES_GRAD 4u
/* The tensor is not in this process now, and `data` is null. Only a layer that answers YES to COHORT_USE_PARTS or
 * COHORT_USE_PAGES meets such a tensor; no host of these headers sets the flag. */
#define COHORT_TENSOR_AWAY 8u

typedef struct cohort_tensor {
  void* data;             /* first element; null with COHORT_TENSOR_AWAY */
  const int64_t* shape;   /* [ndim], in elements */
  const int64_t* strides; /* [ndim], in elements; always set when ndim > 0 */
  const char* name;       /* never null; "" if the tensor has no name */
  uint64_t nbytes;        /* number of elements x bytes of one element */
  int32_t dtype;          /* COHORT_FLOAT32 ... */
  int32_t ndim;
  int32_t device_type; /* COHORT_DEVICE_CPU ... */
  int32_t device_index;
  uint32_t flags; /* COHORT_TENSOR_... */
  uint32_t id; /* of a parameter: its registration index, the same on every rank; of a view: the index of its bucket */
} cohort_tensor;

/* A stream orders work on a device: a call enqueues the work and returns, and the work runs later. On CPU work is done
 * when the call returns. See cohort/api/host/stream.h. */
typedef struct cohort_stream {
  void* native; /* cudaStream_t, ...; null on CPU, never on a device */
  int32_t device_type;
  int32_t device_index;
} cohort_stream;

#endif
