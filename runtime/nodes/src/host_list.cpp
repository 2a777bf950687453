#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/nodes/nodes.hpp>

namespace cohort::nodes {
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

/// The origin of a list of hosts, for messages, and its syntax.
struct Source {
  std::string where;
  std::string_view equals;   ///< between a host and its slots
  std::string_view example;  ///< of a list
};

/// Returns the first character outside of ASCII as "U+FF1A", or "" if all are ASCII. Messages name it because it often
/// looks like an ASCII character.
std::string beyond_ascii(std::string_view text) {
  const auto begin = std::ranges::find_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (begin == text.end()) return "";
  const auto first = static_cast<unsigned char>(*begin);
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  uint32_t code = first & (0x3fU >> more);
  for (auto byte = begin + 1; byte != text.end() && byte <= begin + more; ++byte) {
    code = code << 6U | (static_cast<unsigned char>(*byte) & 0x3fU);
  }
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "U+%04X", code);
  constexpr uint32_t kFullWidth = 0xfee0;  // from an ASCII character to the one of Chinese and Japanese keyboards
  if (code <= kFullWidth + '!' || code > kFullWidth + '~') return name.data();
  return std::string(name.data()) + ", which is not '" + static_cast<char>(code - kFullWidth) + "'";
}

[[noreturn]] void refuse_host(std::string_view text, const Source& source) {
  const std::string other = beyond_ascii(text);
  const bool is_address = std::ranges::count(text, ':') > 1;
  throw UserError(source.where + ": " + host::in_quotes(text) + " is no name or address of a host" +
                  (other.empty() ? "" : " (it has the character " + other + ")") + "; write " +
                  std::string(source.example) + (is_address ? ", and an address with colons as [::1]" : ""));
}

/// An entry is a host, maybe with ":4"; `slots` are those that are told otherwise, or "".
NodeSlots host_of(std::string_view entry, std::string_view slots, const Source& source) {
  const std::size_t colon = entry.rfind(':');
  const bool has_slots = colon != std::string_view::npos && entry.back() != ']';
  const std::string_view name = has_slots ? entry.substr(0, colon) : entry;
  if (!is_host(name) || (has_slots && !slots.empty())) refuse_host(entry, source);
  if (has_slots) slots = entry.substr(colon + 1);
  NodeSlots host{std::string(name), 1};
  if (!has_slots && slots.empty()) return host;
  const char* const end = slots.data() + slots.size();
  const auto [stop, failure] = std::from_chars(slots.data(), end, host.slots);
  if (failure != std::errc{} || stop != end || host.slots < 1 || host.slots > kMostSlots) {
    throw UserError(source.where + ": " + host::in_quotes(slots) + " slots of host '" + host.name +
                    "' are no whole number from 1 to " + std::to_string(kMostSlots) + "; write " + host.name +
                    std::string(source.equals) + "4, or leave the host out");
  }
  return host;
}

/// Hosts in the order of their first mention; slots of several mentions add up.
class HostList {
 public:
  void add(const NodeSlots& one, const std::string& where) {
    const auto [known, is_new] = positions_.try_emplace(one.name, hosts_.size());
    if (is_new) {
      hosts_.push_back(one);
      return;
    }
    NodeSlots& host = hosts_[known->second];
    if (host.slots > kMostSlots - one.slots) {
      throw UserError(where + ": host '" + one.name + "' has more than " + std::to_string(kMostSlots) +
                      " slots in all; give fewer");
    }
    host.slots += one.slots;
  }
  std::vector<NodeSlots> take() { return std::move(hosts_); }

 private:
  std::vector<NodeSlots> hosts_;
  std::unordered_map<std::string, std::size_t> positions_;
};

}  // namespace

std::vector<NodeSlots> parse_hosts(std::string_view text) {
  const Source source{"-H", ":", "host1:4,host2:4"};
  HostList hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    hosts.add(host_of(trimmed(text.substr(begin, end - begin)), "", source), source.where);
    begin = end + 1;
  }
  return hosts.take();
}

std::vector<NodeSlots> read_hostfile(const std::filesystem::path& file) {
  constexpr uint64_t kMostBytes = 64 << 20;  // of a million lines
  std::istringstream text;
  try {
    std::string read = host::read_text_file(file, kMostBytes);
    if (read.starts_with("\xef\xbb\xbf")) read.erase(0, 3);  // editors of Windows begin a file with it
    text.str(std::move(read));
  } catch (const UserError& error) {
    throw UserError(std::string("--hostfile: ") + error.what() + "; give a file with lines 'host1 slots=4'");
  }
  HostList hosts;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    const Source source{"--hostfile " + host::in_quotes(file.string()) + ", line " + std::to_string(++number),
                        " slots=", "'host1 slots=4'"};
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, more;
    if (!(words >> name)) continue;
    words >> slots >> more;
    const bool is_known = slots.empty() || (slots.starts_with("slots=") && slots != "slots=");
    if (!is_known || !more.empty()) {
      throw UserError(source.where + ": " + host::in_quotes(is_known ? more : slots) + " is unknown; write " +
                      std::string(source.example));
    }
    hosts.add(host_of(name, slots.empty() ? "" : std::string_view(slots).substr(6), source), source.where);
  }
  std::vector<NodeSlots> found = hosts.take();
  if (!found.empty()) return found;
  throw UserError("--hostfile " + host::in_quotes(file.string()) + " names no host; write lines 'host1 slots=4'");
}

}  // namespace cohort::nodes
