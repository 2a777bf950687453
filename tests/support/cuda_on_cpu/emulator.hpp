// Runs CUDA kernels on the CPU: blocks one after another, and in a block a fiber for each thread.
//
// A fiber runs until it waits at a barrier, for a shuffle, or at its end; then the next one runs. So all that a kernel
// does between two barriers is done by one thread of the block after another, in an order that a test may choose, and a
// missing barrier shows in the results. A block whose threads cannot go on is a Fault: they wait at different barriers,
// some have left before one, or lanes are missing at a shuffle.
//
// The sanitizers know of the fibers. AddressSanitizer sees each one's stack. To ThreadSanitizer each is a thread,
// ordered by barriers and shuffles only, so that it finds what they should have ordered.
//
// Several threads of a process may run kernels at the same time; each has its own fibers and its own shared memory.
#pragma once

#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>

#include <vector_types.h>

namespace cuda_on_cpu {

/// A thing that no kernel may do. It names the block, the threads and the place.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Size {
  unsigned x = 1, y = 1, z = 1;
};

/// The place of the running thread in its grid.
struct Position {
  uint3 thread, block;
  Size block_size, grid_size;
};
extern thread_local constinit Position position;

/// In which order the threads of a block run between two barriers.
enum class Order { kForward, kBackward, kMixed };
void set_order(Order order);

/// Runs `kernel` in each thread of each block; `threads` is the size of a block. Throws Fault, after which the rest of
/// the grid does not run.
void run(Size blocks, unsigned threads, const std::function<void()>& kernel);

// For kernels. `place` is where they call.

inline constexpr unsigned kLanes = 32;  // of a warp

/// Returns the running thread's number in its warp.
inline unsigned lane() {
  return position.thread.x % kLanes;
}
/// Waits for all threads of the block, and returns whether one gave `true`.
bool sync_block(bool value, const std::source_location& place);
/// Waits for the named lanes of the warp, and returns the value that lane `from` gives.
uint64_t exchange(unsigned lanes, uint64_t value, unsigned from, const std::source_location& place);

}  // namespace cuda_on_cpu
