// The collective `gloo`: ranks on any number of machines, over TCP.
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/collective.hpp>

#include "communicator.hpp"
#include "connect.hpp"
#include "environment/interface.hpp"
#include "meeting.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::gloo::Communicator;
using cohort::gloo::Network;

class Gloo : public sdk::Collective<Gloo, Communicator> {
 public:
  static constexpr bool kRankOrdered = true;
  static constexpr bool kRoundsOnce = true;

  void create(const sdk::Options& options) {
    interface_ = options.text("iface");
    if (interface_.empty()) interface_ = cohort::gloo::interface_of_environment();
  }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    const std::chrono::nanoseconds timeout(args.timeout_ns);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const auto addresses = cohort::gloo::meet(args, interface_, deadline);
    const std::string& address = addresses[static_cast<std::size_t>(args.rank)];
    if (args.rank == 0) log().debug("gloo listens on ", address);
    std::vector<int> job_ranks(addresses.size());
    std::iota(job_ranks.begin(), job_ranks.end(), 0);
    if (args.job_ranks) job_ranks.assign(args.job_ranks, args.job_ranks + args.size);
    auto mesh = cohort::gloo::connect_mesh(args, address, deadline, host());
    auto network = std::make_shared<Network>(std::move(mesh), args.rank, std::move(job_ranks), timeout);
    return std::make_unique<Communicator>(std::move(network), args.name ? args.name : "");
  }

 private:
  std::string interface_;
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("it moves CPU memory only", "choose --accelerator=cpu, or one with pinned memory");
  }
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("iface", "string", "",
                "network interface; default: GLOO_SOCKET_IFNAME, else loopback on one machine, else the way to rank 0"),
};

constexpr cohort_component kGloo =
    sdk::collective<Gloo>("gloo", "ranks on any machines, over TCP").options(kOptions).supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.gloo", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kGloo)
