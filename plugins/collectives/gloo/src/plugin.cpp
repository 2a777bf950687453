// The collective `gloo`: ranks on any number of machines, over TCP.
#include <memory>
#include <string>
#include <vector>

#include <cohort/sdk/collective.hpp>

#include "communicator.hpp"
#include "meeting.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::gloo::Communicator;
using cohort::gloo::Network;
using cohort::gloo::Peer;
using cohort::gloo::who_is_missing;

class Gloo : public sdk::Collective<Gloo, Communicator> {
 public:
  static constexpr bool kRankOrdered = true;

  void create(const sdk::Options& options) { interface_ = options.text("iface"); }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    if (args.size < 1 || args.rank < 0 || args.rank >= args.size) {
      throw sdk::invalid_argument("gloo was asked for rank " + std::to_string(args.rank) + " of " +
                                  std::to_string(args.size));
    }
    if (args.timeout_ns <= 0) throw sdk::invalid_argument("gloo needs a timeout above 0");
    const std::chrono::nanoseconds timeout(args.timeout_ns);
    const std::vector<Peer> peers = cohort::gloo::meet(args, interface_, std::chrono::steady_clock::now() + timeout);
    const std::string address = peers[static_cast<std::size_t>(args.rank)].address;
    if (args.rank == 0) log().debug("gloo listens on ", address);
    try {
      auto network = std::make_shared<Network>(args.store, args.rank, peers, address, timeout);
      return std::make_unique<Communicator>(std::move(network), args.name ? args.name : "");
    } catch (const std::exception& failure) {
      fail_to_connect(args, peers, failure.what());
    }
  }

 private:
  std::string interface_;

  [[noreturn]] static void fail_to_connect(const cohort_connect_args& args, const std::vector<Peer>& peers,
                                           const std::string& reason) {
    const std::string missing = who_is_missing(args, peers);
    const Peer& own = peers[static_cast<std::size_t>(args.rank)];
    if (!missing.empty()) {
      throw sdk::Error(COHORT_UNAVAILABLE,
                       missing + " is gone or stopped: " + own.who + " cannot connect to it (" + reason + ")");
    }
    throw sdk::Error(COHORT_UNAVAILABLE, own.who + " at " + own.address + " cannot connect to all others (" + reason +
                                             "); give gloo,iface=NAME where they reach each other");
  }
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("it moves CPU memory only", "choose --accelerator=cpu, or one with pinned memory");
  }
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("iface", "string", "", "network interface; default: loopback on one machine, else the way to rank 0"),
};

constexpr cohort_component kGloo =
    sdk::collective<Gloo>("gloo", "ranks on any machines, over TCP").options(kOptions).supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.gloo", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kGloo)
