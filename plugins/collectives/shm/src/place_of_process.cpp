#include "place_of_process.hpp"

#include <unistd.h>

#include <array>

#include <cohort/sdk/error.hpp>

#include "process_space.hpp"

namespace cohort::shm {

ProcessPlace own_place() {
  ProcessPlace place;
  std::array<char, 256> text{};
  if (::gethostname(text.data(), text.size() - 1) == 0) place.host = text.data();
  const ProcessSpace space = process_space();
  place.boot = space.boot;
  place.pid_namespace = space.pid_namespace;
  return place;
}

std::string to_text(const ProcessPlace& place) {
  return place.host + "\n" + place.boot + "\n" + place.pid_namespace;
}

ProcessPlace place_from(const std::string& text) {
  const std::size_t first = text.find('\n');
  const std::size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (second == std::string::npos)
    throw sdk::Error(COHORT_DATA_LOSS, "shm read something else than a place from the store");
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

std::string why_apart(const ProcessPlace& first, const ProcessPlace& other, int other_rank) {
  const std::string rank = "rank " + std::to_string(other_rank);
  if (first.boot != other.boot) {
    return rank + " runs on " + other.host + " and rank 0 on " + first.host +
           ", and shm connects the ranks of one machine; use --collective=gloo";
  }
  if (first.pid_namespace != other.pid_namespace) {
    return rank +
           " runs in another pid namespace (container) than rank 0, so they cannot share memory; use --collective=gloo";
  }
  return {};
}

}  // namespace cohort::shm
