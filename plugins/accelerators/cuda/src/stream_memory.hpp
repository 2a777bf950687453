// Memory that kernels borrow on devices without memory pools.
//
// A piece of memory stays with the stream that first borrowed it, so what the stream does next may use it at once, and
// nothing is freed while a kernel may use it. Threads: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

namespace cohort::cuda {

class StreamMemory {
 public:
  StreamMemory() = default;
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  /// Returns memory of the thread's current device. Throws if the stream is captured: a graph may be replayed while the
  /// stream lends the same memory to another kernel.
  void* borrow(uint64_t nbytes, cudaStream_t stream);
  /// Returns false if the memory was not borrowed here.
  bool give_back(void* memory) noexcept;

 private:
  struct Piece {
    void* memory;
    uint64_t nbytes;
    unsigned long long stream;  // its id: a handle may be another stream's later
    bool is_borrowed;
  };
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

}  // namespace cohort::cuda
