// A libnccl.so.2 for tests, without GPUs: the calls that plugins/collectives/nccl uses, on memory and streams of the
// fake device, between threads and processes of one machine.
//
// It is as inconvenient as NCCL: nothing of a group starts before ncclGroupEnd, a call may return ncclInProgress and
// has done nothing until the communicator was asked for its state often enough, operations of a communicator run in
// the order of their calls, outputs hold garbage until they are done, 16-bit sums are rounded at each hop, ncclAvg
// multiplies by a rounded 1 / n, and two ranks on one device are refused. Where ranks call different things it fails
// with a message. settings.hpp says what it does on demand.
#include <memory>
#include <string>
#include <vector>

#include <cohort/api/tensor.h>

#include "communicator.hpp"
#include "hub.hpp"
#include "settings.hpp"
#include "watched.hpp"

using nccl_stand_in::Call;
using nccl_stand_in::Communicator;
using nccl_stand_in::Kind;
using nccl_stand_in::Operation;

struct ncclComm {
  std::shared_ptr<Communicator> communicator;
  int device;
};

namespace {

struct Queued {
  ncclComm_t comm;
  fakedrv_stream* stream;
  Call call;
};

thread_local int group_depth = 0;
thread_local std::vector<Queued> group;
thread_local std::string own_text;

ncclResult_t refuse(const std::string& text) {
  own_text = text;
  return ncclInvalidArgument;
}

ncclResult_t launch_group() {
  std::vector<Queued> all;
  all.swap(group);
  ncclResult_t result = ncclSuccess;
  while (!all.empty()) {
    const Queued first = all.front();
    std::vector<Call> calls;
    for (const Queued& one : all) {
      if (one.comm == first.comm) calls.push_back(one.call);
    }
    std::erase_if(all, [&](const Queued& one) { return one.comm == first.comm; });
    const ncclResult_t one = first.comm->communicator->launch(first.stream, std::move(calls));
    if (one != ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, const Operation& op, const void* input, void* output) {
  if (!comm || !stream) return refuse("a null communicator or stream");
  if (op.dtype < 0 || op.dtype > ncclBfloat16 || op.dtype == ncclUint32) return refuse("an unknown type");
  if (op.root < 0 || op.root >= comm->communicator->size()) return refuse("a root or peer that is none");
  if (op.count > uint64_t{1} << 56) return refuse("too many elements");
  for (const void* const memory : {input, static_cast<const void*>(output)}) {
    const int device = memory ? fakedrv_device_of(memory) : -1;
    if (device >= 0 && device != comm->device) return refuse("memory of another device than the communicator's");
  }
  group.push_back({comm, reinterpret_cast<fakedrv_stream*>(stream), {op, input, output}});
  return group_depth > 0 ? ncclSuccess : launch_group();
}

bool is_blocking(const ncclConfig_t* config) {
  return !config || config->blocking != 0;
}

ncclResult_t end(ncclComm_t comm, bool is_clean) {
  nccl_stand_in::note_call_for(comm->device);
  comm->communicator->leave(is_clean);
  delete comm;
  return ncclSuccess;
}

}  // namespace

extern "C" {

/* Says to the plugin that this NCCL serves another kind of device. */
int cohort_nccl_device_type(void) {
  return COHORT_DEVICE_EXT;
}
ncclResult_t ncclGetVersion(int* found) {
  *found = nccl_stand_in::version();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string address = nccl_stand_in::Hub::open();
  *id = {};
  address.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return kTexts[result];
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm) own_text = comm->communicator->last_error();
  return own_text.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (nranks < 1 || rank < 0 || rank >= nranks) return refuse("a rank that is none");
  auto made = std::make_shared<Communicator>(rank, nranks, is_blocking(config));
  made->start();
  made->connect(id.internal, fakedrv_current_device());
  nccl_stand_in::note_context(fakedrv_current_device());
  *comm = new ncclComm{made, fakedrv_current_device()};
  return is_blocking(config) ? made->wait() : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  Communicator& whole = *comm->communicator;
  *part = nullptr;
  nccl_stand_in::note_call_for(comm->device);
  whole.split(color, key, is_blocking(config), [part, device = comm->device](std::shared_ptr<Communicator> made) {
    if (made) *part = new ncclComm{std::move(made), device};
  });
  return whole.is_blocking() ? whole.wait() : ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  nccl_stand_in::note_call_for(comm->device);
  nccl_stand_in::pass_gate();
  return comm->communicator->finalize();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return end(comm, true);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  nccl_stand_in::pass_gate();
  return end(comm, false);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->communicator->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->communicator->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->communicator->rank();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  return --group_depth > 0 ? ncclSuccess : launch_group();
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kAllReduce, dtype, op, 0, count}, input, output);
}

ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kReduce, dtype, op, root, count}, input, output);
}

ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kBroadcast, dtype, 0, root, count}, input, output);
}

ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kAllGather, dtype, 0, 0, count}, input, output);
}

ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kReduceScatter, dtype, op, 0, count}, input, output);
}

ncclResult_t ncclSend(const void* input, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kSend, dtype, 0, peer, count}, input, nullptr);
}

ncclResult_t ncclRecv(void* output, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue(comm, stream, {Kind::kReceive, dtype, 0, peer, count}, nullptr, output);
}

}  // extern "C"
