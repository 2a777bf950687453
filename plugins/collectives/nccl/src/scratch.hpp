// Memory of a device that an operation borrows in the order of its stream.
//
// It comes from a pool of this plugin's own and stays there, so that nothing waits for the driver after the first
// operations; a pool that has become much larger than they need shrinks again. In a capture the memory belongs to the
// graph. Threads: any; a Scratch belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "link.hpp"

namespace cohort::nccl {

class ScratchPool {
 public:
  explicit ScratchPool(std::shared_ptr<const Surroundings> around) : around_(std::move(around)) {}
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Returns memory for later work of the stream. Throws sdk::Error if there is none.
  void* borrow(uint64_t nbytes, cudaStream_t stream);
  /// Frees the memory once the stream has done its present work.
  void give_back(void* memory, uint64_t nbytes, cudaStream_t stream) noexcept;

 private:
  std::shared_ptr<const Surroundings> around_;
  std::mutex mutex_;
  cudaMemPool_t pool_ = nullptr;       // made at the first use
  uint64_t lent_ = 0, most_lent_ = 0;  // bytes, and the most in this window
  int num_loans_ = 0;                  // of this window

  cudaMemPool_t pool();
  void destroy(cudaMemPool_t pool) const;
  void note_loan(uint64_t nbytes);
};

/// Borrowed as long as it lives.
class Scratch {
 public:
  Scratch(ScratchPool& pool, uint64_t nbytes, const cohort_stream& stream)
      : pool_(pool),
        stream_(static_cast<cudaStream_t>(stream.native)),
        nbytes_(nbytes),
        memory_(nbytes > 0 ? pool.borrow(nbytes, stream_) : nullptr) {}
  ~Scratch() {
    if (memory_) pool_.give_back(memory_, nbytes_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(memory_) + offset; }

 private:
  ScratchPool& pool_;
  cudaStream_t stream_;
  uint64_t nbytes_;
  void* memory_;
};

}  // namespace cohort::nccl
