// Whatever others write into the store in which ranks of gloo meet: it is refused, or they know of each other.
#include "collectives/gloo/src/meeting.hpp"

#include "meeting.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  fuzz::meet({data, size}, [](const cohort_connect_args& args) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    gloo::meet(args, "", deadline);
  });
  return 0;
}
