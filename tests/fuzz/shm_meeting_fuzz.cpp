// Whatever others write into the store in which ranks of shm meet: it is refused, or the ranks share a segment.
#include "meeting.hpp"

#include <unistd.h>

#include "collectives/shm/src/connect.hpp"

namespace {

/// A process in which memory is looked for is this one, where the input leaves a place for it: nothing of others is
/// opened.
std::string with_own_pid(std::string text) {
  const std::string mark = "\x7fPID";
  const int32_t pid = ::getpid();
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += sizeof pid) {
    text.replace(at, sizeof pid, reinterpret_cast<const char*>(&pid), sizeof pid);
  }
  return text;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  const std::string bytes = with_own_pid(std::string(data, data + size));
  const fuzz::Input input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  fuzz::meet(input, [](const cohort_connect_args& args) { shm::connect(args, nullptr); });
  return 0;
}
