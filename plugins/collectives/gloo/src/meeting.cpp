#include "meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include <cohort/sdk/store_round.hpp>

#include "addresses.hpp"

namespace cohort::gloo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kFarAway = "192.0.2.1";  // reserved for documentation: reached by the default route
constexpr char kFailure = '!';

/// What a rank says about itself first.
struct Introduction {
  std::string machine;  // equal for ranks that reach each other by loopback
  std::string master;   // what the master address resolves to there

  std::string to_text() const { return machine + '\n' + master + '\n'; }
  static Introduction from(const std::string& text) {
    Introduction result;
    std::istringstream lines(text);
    for (std::string* line : {&result.machine, &result.master}) std::getline(lines, *line);
    return result;
  }
};

std::string link_target(const char* path) {
  std::array<char, 256> text{};
  return ::readlink(path, text.data(), text.size() - 1) > 0 ? text.data() : "";
}

Introduction own_introduction(const char* master_addr) {
  Introduction own;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> own.machine;
  own.machine += " " + link_target("/proc/self/ns/net");  // containers of one machine have loopbacks of their own
  if (master_addr) own.master = resolve(master_addr);
  return own;
}

/// The address that other machines can use.
std::string outer_address(const char* master_addr, const std::vector<Introduction>& all) {
  if (master_addr) {
    const std::string address = address_towards(master_addr);
    if (!address.empty() && !is_loopback(address)) return address;
  }
  // On the master itself its name may mean loopback; what the name means elsewhere is then one of its addresses.
  const auto interfaces = interface_addresses();
  for (const Introduction& other : all) {
    const bool is_own = std::any_of(interfaces.begin(), interfaces.end(),
                                    [&](const InterfaceAddress& known) { return known.address == other.master; });
    if (is_own && !is_loopback(other.master)) return other.master;
  }
  const std::string address = address_towards(kFarAway);
  if (!address.empty() && !is_loopback(address)) return address;
  throw sdk::invalid_argument("gloo finds no address here that other machines reach; give iface one of: " +
                              interface_list());
}

std::string own_address(const std::string& interface, const char* master_addr, const std::vector<Introduction>& all) {
  if (!interface.empty()) return address_of(interface);
  const bool is_one_machine = std::all_of(
      all.begin(), all.end(), [&](const Introduction& other) { return other.machine == all.front().machine; });
  if (!is_one_machine) return outer_address(master_addr, all);
  const auto interfaces = interface_addresses();
  if (std::ranges::any_of(interfaces, [](const auto& known) { return known.address == kLoopback; })) return kLoopback;
  throw sdk::invalid_argument(
      std::string("gloo connects the ranks of one machine at ") + kLoopback +
      ", which no network interface has; run ip link set lo up, or give iface one of: " + interface_list());
}

}  // namespace

std::vector<std::string> meet(const cohort_connect_args& args, const std::string& interface,
                              Clock::time_point deadline) {
  std::vector<Introduction> introductions;
  for (const std::string& text :
       sdk::store_round(args, "gloo/machine", own_introduction(args.master_addr).to_text(), deadline)) {
    introductions.push_back(Introduction::from(text));
  }
  std::string answer;
  try {
    answer = own_address(interface, args.master_addr, introductions);
  } catch (const sdk::Error& error) {
    answer = kFailure + std::string(error.what());
  }
  std::vector<std::string> answers = sdk::store_round(args, "gloo/where", answer, deadline);
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].empty() || answers[rank][0] != kFailure) continue;
    if (answer[0] == kFailure) throw sdk::invalid_argument(answer.substr(1));  // each says its own
    const int number = args.job_ranks ? args.job_ranks[rank] : static_cast<int>(rank);
    throw sdk::invalid_argument("rank " + std::to_string(number) + ": " + answers[rank].substr(1));
  }
  return answers;
}

}  // namespace cohort::gloo
