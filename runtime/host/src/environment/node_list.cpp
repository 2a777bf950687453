#include "environment/node_list.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <sstream>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

constexpr std::size_t kMostHosts = 65'536;
constexpr std::size_t kLongestHost = 255;
constexpr off_t kLargestFile = 4 << 20;

/// Reads one list from left to right.
class NodeListParser {
 public:
  NodeListParser(std::string_view list, const std::string& shown) : rest_(list), shown_(shown) {}

  std::vector<std::string> hosts() {
    std::vector<std::string> all;
    do {
      for (std::string& host : names()) {
        if (all.size() == kMostHosts) refuse("names more than " + std::to_string(kMostHosts) + " hosts");
        all.push_back(std::move(host));
      }
    } while (take(','));
    return all;
  }

 private:
  /// Reads the names up to the next comma: text and brackets.
  std::vector<std::string> names() {
    std::vector<std::string> names{""};
    while (!rest_.empty() && rest_.front() != ',') {
      if (take('[')) {
        names = each_with(names, numbers());
      } else {
        const std::string_view text = rest_.substr(0, rest_.find_first_of(",[]"));
        if (text.empty()) refuse("has a ] without a [");
        rest_.remove_prefix(text.size());
        check_length(names.front().size() + text.size());
        for (std::string& name : names) name += text;
      }
      check_length(names.front().size());
    }
    if (names.front().empty()) refuse("has an empty name");
    return names;
  }

  /// Reads what stands in a bracket: numbers and ranges of them, with leading zeros as they are written.
  std::vector<std::string> numbers() {
    std::vector<std::string> result;
    do {
      const std::string_view first = digits();
      const std::string_view last = take('-') ? digits() : first;
      const uint64_t from = value(first), to = value(last);
      if (from > to) refuse("has a range that ends before it begins");
      if (to - from >= kMostHosts - result.size()) refuse("names more than " + std::to_string(kMostHosts) + " hosts");
      for (uint64_t number = from; number <= to; ++number) {
        std::string text = std::to_string(number);
        if (text.size() < first.size()) text.insert(0, first.size() - text.size(), '0');
        result.push_back(std::move(text));
      }
    } while (take(','));
    if (!take(']')) refuse("has a [ without a ]");
    return result;
  }

  std::string_view digits() {
    const std::string_view text = rest_.substr(0, rest_.find_first_not_of("0123456789"));
    if (text.empty()) refuse("lacks a number in its brackets");
    rest_.remove_prefix(text.size());
    return text;
  }

  uint64_t value(std::string_view digits) const {
    uint64_t result = 0;
    const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    check_length(digits.size());
    if (failure != std::errc{} || result > INT64_MAX) refuse("has a number too large");
    return result;
  }

  std::vector<std::string> each_with(const std::vector<std::string>& names,
                                     const std::vector<std::string>& ends) const {
    if (names.size() > kMostHosts / ends.size()) refuse("names more than " + std::to_string(kMostHosts) + " hosts");
    std::vector<std::string> result;
    for (const std::string& name : names) {
      for (const std::string& end : ends) result.push_back(name + end);
    }
    return result;
  }

  void check_length(std::size_t bytes) const {
    if (bytes > kLongestHost) refuse("has a name of more than " + std::to_string(kLongestHost) + " bytes");
  }

  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError("environment: the list of hosts " + shown_ + " " + why +
                    "; correct it, or set MASTER_ADDR to the host of rank 0");
  }

  std::string_view rest_;
  const std::string& shown_;
};

/// Returns the text of a regular file of limited size.
std::string file_text(const std::string& path, const std::string& shown) {
  const auto refuse = [&](const std::string& why) {
    return UserError("environment: the file of hosts " + shown + " " + why +
                     "; set it to a file that all ranks can read");
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) throw refuse("cannot be read: " + std::string(std::strerror(errno)));
  struct stat status {};
  std::string text;
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= kLargestFile;
  ssize_t count = 0;
  if (is_file) {
    text.resize(static_cast<std::size_t>(status.st_size));
    count = ::read(file, text.data(), text.size());
  }
  ::close(file);
  if (!is_file) throw refuse("is no regular file of 4 MiB at most");
  if (count < 0) throw refuse("cannot be read");
  text.resize(static_cast<std::size_t>(count));
  return text;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list, const std::string& shown) {
  return NodeListParser(list, shown).hosts();
}

std::vector<std::string> read_host_file(const VariableReader& reader, std::string_view variable) {
  const std::string shown = reader.shown(variable);
  std::istringstream lines(file_text(reader.text(variable).value_or(""), shown));
  std::vector<std::string> hosts;
  for (std::string line; std::getline(lines, line);) {
    std::string host;
    if (!(std::istringstream(line) >> host)) continue;
    if (host.size() > kLongestHost || on_one_line(host) != host) {
      throw UserError("environment: the file of hosts " + shown + " holds " + in_quotes(host) +
                      ", which is no host; correct it");
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw UserError("environment: the file of hosts " + shown + " names no host; correct it");
  return hosts;
}

}  // namespace cohort::host
