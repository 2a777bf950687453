#include <algorithm>
#include <charconv>
#include <sstream>
#include <unordered_map>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/launch/hosts.hpp>

namespace cohort::host {
namespace {

constexpr int kMostSlots = 1'000'000;
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// What ssh takes as a host, and as nothing else: an option would begin with '-'.
bool is_host_name(std::string_view name, std::string_view more) {
  return !name.empty() && name.front() != '-' && name.size() <= 255 && std::ranges::all_of(name, [&](char c) {
    return is_alphanumeric(c) || more.find(c) != std::string_view::npos;
  });
}

/// A name, or an address in brackets, maybe after "user@".
bool is_host(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at != std::string_view::npos && !is_host_name(text.substr(0, at), "._-")) return false;
  const std::string_view host = at == std::string_view::npos ? text : text.substr(at + 1);
  const bool is_address = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return is_address ? is_host_name(host.substr(1, host.size() - 2), ":.%-_") : is_host_name(host, "._-");
}

HostSlots host_of(std::string_view name, std::string_view slots, const std::string& where) {
  if (!is_host(name)) {
    throw UserError(where + ": " + in_quotes(name) + " is no name or address of a host; write host1:4,host2:4");
  }
  HostSlots host{std::string(name), 1};
  const char* const end = slots.data() + slots.size();
  const auto [stop, failure] = std::from_chars(slots.data(), end, host.slots);
  if (failure != std::errc{} || stop != end || host.slots < 1 || host.slots > kMostSlots) {
    throw UserError(where + ": " + in_quotes(slots) + " slots of host '" + host.name +
                    "' are no whole number from 1 to " + std::to_string(kMostSlots) + "; write " + host.name + ":4");
  }
  return host;
}

/// Hosts in the order of their first mention; slots of several mentions add up.
class HostList {
 public:
  void add(const HostSlots& one, const std::string& where) {
    const auto [known, is_new] = positions_.try_emplace(one.name, hosts_.size());
    if (is_new) {
      hosts_.push_back(one);
      return;
    }
    HostSlots& host = hosts_[known->second];
    if (host.slots > kMostSlots - one.slots) {
      throw UserError(where + ": host '" + one.name + "' has more than " + std::to_string(kMostSlots) +
                      " slots in all; give fewer");
    }
    host.slots += one.slots;
  }
  std::vector<HostSlots> take() { return std::move(hosts_); }

 private:
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, std::size_t> positions_;
};

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view text) {
  HostList hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = trimmed(text.substr(begin, end - begin));
    const std::size_t colon = entry.rfind(':');
    const bool has_slots = colon != std::string_view::npos && entry.back() != ']';
    hosts.add(has_slots ? host_of(entry.substr(0, colon), entry.substr(colon + 1), "-H") : host_of(entry, "1", "-H"),
              "-H");
    begin = end + 1;
  }
  return hosts.take();
}

std::vector<HostSlots> read_hostfile(const std::filesystem::path& file) {
  constexpr uint64_t kMostBytes = 64 << 20;  // of a million lines
  std::istringstream text;
  try {
    text.str(read_text_file(file, kMostBytes));
  } catch (const UserError& error) {
    throw UserError(std::string("--hostfile: ") + error.what() + "; give a file with lines 'host1 slots=4'");
  }
  HostList hosts;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    const std::string where = "--hostfile " + in_quotes(file.string()) + ", line " + std::to_string(++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots = "slots=1", more;
    if (!(words >> name)) continue;
    words >> slots >> more;
    if (!slots.starts_with("slots=") || !more.empty()) {
      throw UserError(where + ": " + in_quotes(more.empty() ? slots : more) + " is unknown; write 'host1 slots=4'");
    }
    hosts.add(host_of(name, std::string_view(slots).substr(6), where), where);
  }
  std::vector<HostSlots> found = hosts.take();
  if (!found.empty()) return found;
  throw UserError("--hostfile " + in_quotes(file.string()) + " names no host; write lines 'host1 slots=4'");
}

}  // namespace cohort::host
