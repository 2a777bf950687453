// Whatever the text: a list of hosts holds only what ssh takes as a host, and what comes over a connection is messages
// and jobs that survive being written and read again, or an Error.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/launch/hosts.hpp>

#include "hosts/message.hpp"
#include "hosts/node_job.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

namespace {

void read_hosts(const std::string& text) {
  try {
    for (const cohort::host::HostSlots& host : cohort::host::parse_hosts(text)) {
      const bool is_safe = host.name.find_first_of(" \t\r\n'\"$`;&|<>\\/*?()=") == std::string::npos;
      if (host.slots < 1 || host.name.empty() || host.name[0] == '-' || !is_safe) throw std::logic_error(host.name);
    }
  } catch (const cohort::UserError&) {
  }
}

void read_messages(const std::string& text) {
  cohort::host::MessageReader reader(true);
  reader.add(text);
  try {
    std::string again;
    while (const auto message = reader.next()) again += cohort::host::encode(*message);
    if (!text.starts_with(again)) throw std::logic_error("changed by being read: " + text);
  } catch (const cohort::PeerFailed&) {
  }
}

void read_job(const std::string& text) {
  try {
    const cohort::host::NodeJob job = cohort::host::node_job_from(text);
    const std::string again = to_text(job);
    if (to_text(cohort::host::node_job_from(again)) != again)
      throw std::logic_error("changed by being written: " + text);
  } catch (const cohort::PeerFailed&) {
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  read_hosts(text);
  read_messages(text);
  read_job(text);
  return 0;
}
