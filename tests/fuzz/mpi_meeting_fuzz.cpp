// Whatever others write into the store in which ranks of mpi meet: it is refused, or every peer has a process and a
// place in MPI's world. MPI itself is not started.
#include "meeting.hpp"

#include "collectives/mpi/src/meeting.hpp"

namespace cohort::mpi {

Library& Library::of_process() {
  static Library library;
  return library;
}
Library::~Library() = default;
void Library::start(bool, std::chrono::nanoseconds) {
  size_ = fuzz::kRanks;
}

}  // namespace cohort::mpi

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  fuzz::meet({data, size}, [](const cohort_connect_args& args) {
    const auto deadline = mpi::Clock::now() + std::chrono::milliseconds(1);
    for (const mpi::Peer& peer : mpi::meet(args, mpi::Library::of_process(), false, deadline)) {
      fuzz::require(peer.pid >= 0 && peer.world_rank >= 0 && peer.world_rank < fuzz::kRanks, "no place: " + peer.who);
    }
  });
  return 0;
}
