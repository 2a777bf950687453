// What nccl.h and the headers of CUDA say, as numbers: for the plugin's declarations and, where there is one, for the
// real headers.
#pragma once

#include <cstddef>

static_assert(sizeof(ncclUniqueId) == 128 && NCCL_SPLIT_NOCOLOR == -1);
static_assert(ncclSuccess == 0 && ncclUnhandledCudaError == 1 && ncclSystemError == 2 && ncclInternalError == 3);
static_assert(ncclInvalidArgument == 4 && ncclInvalidUsage == 5 && ncclRemoteError == 6 && ncclInProgress == 7);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 && ncclInt64 == 4);
static_assert(ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8 && ncclBfloat16 == 9);
static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclRedOp_t) == 4 && sizeof(ncclDataType_t) == 4);
static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12);
static_assert(offsetof(ncclConfig_t, blocking) == 16 && offsetof(ncclConfig_t, netName) == 32);
static_assert(offsetof(ncclConfig_t, splitShare) == 40 && offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, nvlinkCentricSched) == 76 && sizeof(ncclConfig_t) >= 80);
static_assert(cudaSuccess == 0 && cudaErrorNotReady == 600 && cudaStreamCaptureModeRelaxed == 2);
static_assert(cudaMemAllocationTypePinned == 1 && cudaMemLocationTypeDevice == 1);
static_assert(cudaMemPoolAttrReleaseThreshold == 4 && sizeof(cudaMemPoolProps) == 88);
static_assert(offsetof(cudaMemPoolProps, location) == 8 && sizeof(cudaMemLocation) == 8);
