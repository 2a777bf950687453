/* Accelerators: devices that hold tensors, and the kernels that work on these tensors.
 *
 * Ownership: returned tables and strings are static. Threads: as tagged; kernels are [any-thread] and ordered by their
 * stream (on CPU: done when the call returns).
 */
#ifndef COHORT_API_ACCELERATOR_H
#define COHORT_API_ACCELERATOR_H

#include "kernels.h"
#include "plugin.h"

COHORT_EXTERN_C_BEGIN

/* Made by the host. */
typedef struct cohort_accelerator {
  uint32_t struct_size;
  uint32_t reserved0;
  const struct cohort_accelerator_vt* vt;
  void* data;
  const cohort_host* host;
} cohort_accelerator;

/* Filled by the plugin; the host sets struct_size. */
typedef struct cohort_device_info {
  uint32_t struct_size;
  int32_t device_type;
  int32_t device_index;
  uint32_t reserved0;
  uint64_t memory_bytes;
  char name[64];        /* NUL-terminated */
  char pci_address[16]; /* "0000:3b:00.0", NUL-terminated: a rank stays on the cores near it; "" if there is none */
} cohort_device_info;

typedef struct cohort_accelerator_vt {
  uint32_t struct_size;
  int32_t device_type;           /* COHORT_DEVICE_... of its tensors */
  const char* torch_device_type; /* LibTorch's name of the type, "cpu", "cuda"; null: for programs without LibTorch */
  const char* torch_library;     /* a further LibTorch library to open first ("libtorch_cuda.so"), or null */
  /* Makes `data`, from options that the host has checked. */
  cohort_status (*create)(cohort_accelerator* a, const cohort_key_value* options, uint64_t num_options) COHORT_NOEXCEPT;
  /* Releases `data`. */
  void (*destroy)(cohort_accelerator* a) COHORT_NOEXCEPT;
  /* Fills `*count` with the number of usable devices, which may be 0. Required. [main] */
  cohort_status (*device_count)(cohort_accelerator* a, int32_t* count) COHORT_NOEXCEPT;
  /* Fills `*info` about a device. */
  cohort_status (*device_info)(cohort_accelerator* a, int32_t index, cohort_device_info* info) COHORT_NOEXCEPT;
  /* Makes a device the calling thread's current one. [any-thread] */
  cohort_status (*select)(cohort_accelerator* a, int32_t index) COHORT_NOEXCEPT;
  /* Allocates host memory for copies to and from the device that can overlap with other work. A plugin fills
   * alloc_pinned, free_pinned, copy_to_host, copy_to_device and wait, or none; without them collectives of host memory
   * cannot serve this device. [any-thread] */
  cohort_status (*alloc_pinned)(cohort_accelerator* a, uint64_t nbytes, void** memory) COHORT_NOEXCEPT;
  /* Frees memory of alloc_pinned. [any-thread] */
  void (*free_pinned)(cohort_accelerator* a, void* memory) COHORT_NOEXCEPT;
  /* Enqueues on `stream` a copy from the device to pinned memory; it is done when `wait` returns. [any-thread] */
  cohort_status (*copy_to_host)(cohort_accelerator* a, void* pinned, const void* device, uint64_t nbytes,
                                const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Enqueues on `stream` a copy from pinned memory to the device; it is done when `wait` returns. [any-thread] */
  cohort_status (*copy_to_device)(cohort_accelerator* a, void* device, const void* pinned, uint64_t nbytes,
                                  const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Blocks until the enqueued copies of `stream` are done. [any-thread] */
  cohort_status (*wait)(cohort_accelerator* a, const cohort_stream* stream) COHORT_NOEXCEPT;
  /* Returns the table of kernels with this id for this device type, or null. It lives as long as the accelerator. The
   * host asks once for the tables of kernels.h, and completes copies of them. The slot may be null. [any-thread] */
  const void* (*kernels)(cohort_accelerator* a, const char* id)COHORT_NOEXCEPT;
  /* Returns the table of this accelerator with this id, or null. The slot may be null. [any-thread] */
  const void* (*get_extension)(cohort_accelerator* a, const char* id)COHORT_NOEXCEPT;
} cohort_accelerator_vt;
#define COHORT_ACCELERATOR_VT_SIZE_1_0 COHORT_END(cohort_accelerator_vt, get_extension)

COHORT_EXTERN_C_END
#endif
