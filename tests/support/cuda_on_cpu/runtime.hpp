// The CUDA runtime's functions that the plugin calls, on the CPU: memory is the host's, and work is done when it is
// enqueued. A test says which machine there is, and which function fails next.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <driver_types.h>

namespace cuda_on_cpu {

/// The work of a stream, as a captured graph keeps it: what is enqueued while the graph is machine().graph is not done,
/// but recorded, and done by each replay.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void record(std::function<void()> work) { work_.push_back(std::move(work)); }
  /// Frees the memory with the graph.
  void keep(void* memory) { memory_.push_back(memory); }
  void replay() const;

 private:
  std::vector<std::function<void()>> work_;
  std::vector<void*> memory_;
};

struct Machine {
  int num_devices = 2;
  int driver_version = 13000;
  int current_device = 0;
  bool has_pools = true;
  Graph* graph = nullptr;  // null: work is done when it is enqueued
  cudaError_t count_error = cudaSuccess;
  std::map<std::string, cudaError_t> fails;  // by function, "launch" for kernels, until the test takes it out
  std::set<int> contexts;                    // devices on which this process has taken memory
  std::map<cudaMemPoolAttr, uint64_t> pool_attributes;
  uint64_t num_scratch = 0;  // pieces of memory that are borrowed from pools now
  uint64_t num_pools = 0;
  uint64_t num_pieces = 0;  // of cudaMalloc
  uint64_t num_copies = 0;
};

/// The one machine.
Machine& machine();

/// Does the work now, or records it in machine().graph. Returns the error with which a test lets `function` fail.
cudaError_t enqueue(const char* function, std::function<void()> work);

}  // namespace cuda_on_cpu
