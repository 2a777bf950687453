// Whatever the text: a list of hosts, on the command line or in a file, holds only what ssh takes as a host, or is
// refused.
#include <vector>

#include <cohort/nodes/nodes.hpp>

#include "fuzz.hpp"

namespace {

void check(const std::vector<cohort::nodes::NodeSlots>& hosts) {
  for (const auto& host : hosts) {
    const bool is_safe = host.name.find_first_of(" \t\r\n'\"$`;&|<>\\/*?()=") == std::string::npos;
    cohort::fuzz::require(host.slots >= 1 && !host.name.empty() && host.name[0] != '-' && is_safe,
                          "no host for ssh: " + host.name);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  const std::string text(data, data + size);
  fuzz::accepts<UserError>([&] { check(nodes::parse_hosts(text)); });
  const fuzz::InputFile file(text);
  fuzz::accepts<UserError>([&] { check(nodes::read_hostfile(file.path())); });
  return 0;
}
