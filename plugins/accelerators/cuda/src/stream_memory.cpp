#include "stream_memory.hpp"

#include <algorithm>

#include "errors.hpp"

namespace cohort::cuda {
namespace {

constexpr uint64_t kLeastNbytes = 64 << 10;  // so that one piece serves most calls

void refuse_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "the state of a stream");
  if (status == cudaStreamCaptureStatusNone) return;
  throw sdk::failed_precondition(
      "cuda: a kernel that needs scratch memory cannot be captured in a graph on this device, which has no memory "
      "pools; train without --graph");
}

void* allocate(uint64_t nbytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, nbytes);
  if (error == cudaErrorMemoryAllocation) throw out_of_memory(nbytes, "scratch memory for a kernel");
  check(error, "scratch memory for a kernel");
  return memory;
}

}  // namespace

// The process may end, and CUDA with it, so nobody asks how this went.
StreamMemory::~StreamMemory() {
  for (const Piece& piece : pieces_) cudaFree(piece.memory);
}

void* StreamMemory::borrow(uint64_t nbytes, cudaStream_t stream) {
  refuse_capture(stream);
  unsigned long long id = 0;
  check(cudaStreamGetId(stream, &id), "the number of a stream");
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_) {
    if (piece.is_borrowed || piece.stream != id || piece.nbytes < nbytes) continue;
    piece.is_borrowed = true;
    return piece.memory;
  }
  pieces_.reserve(pieces_.size() + 1);  // first: what is allocated is surely kept
  const uint64_t size = std::max(nbytes, kLeastNbytes);
  pieces_.push_back({allocate(size), size, id, true});
  return pieces_.back().memory;
}

bool StreamMemory::give_back(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_) {
    if (piece.memory != memory) continue;
    piece.is_borrowed = false;
    return true;
  }
  return false;
}

}  // namespace cohort::cuda
