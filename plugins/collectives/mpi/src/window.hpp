// A window: memory that MPI shares between ranks of one machine, a part for each, mapped by all of them.
//
// Owns nothing: to make and to free one is collective and up to the caller. Threads: any.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort::mpi {

struct Window {
  MPI_Win handle = MPI_WIN_NULL;
  std::vector<std::byte*> parts;  // by rank; each begins on a page
  uint64_t nbytes = 0;            // of a part, whole pages
};

/// True where ranks of `comm` can share memory: they are on one machine. Waits for all of them. The code of MPI.
int find_one_machine(MPI_Comm comm, bool& is_one);

/// True where there is room for parts of `nbytes`, as far as can be known. Open MPI 4.1 looks on the first rank alone,
/// and leaves the others waiting where that has none.
bool has_room_for_window(uint64_t nbytes, int ranks);

/// Makes a window of parts of at least `nbytes`. Waits for all ranks of `comm`. The code of MPI.
int make_window(MPI_Comm comm, uint64_t nbytes, Window& window);

/// Gives a part its memory, zero-filled: what the machine does not have would else show when it is written to, as a
/// fault. False where it does not have it.
bool fill_with_zeros(std::byte* part, uint64_t nbytes);

/// Gives a part's memory back to the machine while its addresses stay mapped.
void give_back(std::byte* part, uint64_t nbytes);

}  // namespace cohort::mpi
