// The collective `sim`: another collective with the speed of a network that is not there.
#include <memory>
#include <string>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/own_copy.hpp>

#include "communicator.hpp"
#include "settings.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::sim::Communicator;
using cohort::sim::Link;
using cohort::sim::Nanoseconds;

class Sim : public sdk::Collective<Sim, Communicator> {
 public:
  void create(const sdk::Options& options) { settings_ = cohort::sim::settings_from(options); }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    check_rank("straggler", settings_.straggler, args.size);
    if (settings_.vanishing) check_rank("vanish", settings_.vanishing->rank, args.size);
    const std::string name = std::string(args.name) + "/over";
    cohort_connect_args group = sdk::own_copy(args);
    group.name = name.c_str();
    group.num_nodes = 1;  // the collective below runs on one machine; the network between nodes is this one
    sdk::OwnedComm over = host().open_comm(settings_.over.c_str(), group);
    return std::make_unique<Communicator>(std::move(over), std::make_shared<Link>(settings_, args.rank),
                                          Nanoseconds(args.timeout_ns));
  }

 private:
  cohort::sim::Settings settings_;

  static void check_rank(const std::string& option, int rank, int size) {
    if (rank < size) return;
    throw sdk::invalid_argument("sim: " + option + " names rank " + std::to_string(rank) + " of " +
                                std::to_string(size) + " ranks, which count from 0");
  }
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("it moves CPU memory only", "choose --accelerator=cpu, or one with pinned memory");
  }
  if (query.use() == COHORT_USE_UNNAMED) return sdk::no("it slows a job down on purpose", "name it: --collective=sim");
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("over", "collective", "shm", "collective that carries the bytes; ,, separates its own options"),
    sdk::option("bandwidth", "string", "1Gbit", "of each rank and direction, per second: 1Gbit, 100Mbit, unlimited"),
    sdk::option("latency", "duration", "100us", "of each message"),
    sdk::option("straggler", "int[-1..65535]", "-1", "rank that comes late to every exchange; -1: none"),
    sdk::option("slow", "duration", "5ms", "how late the straggler comes"),
    sdk::option("vanish", "string", "", "RANK@EXCHANGE: that rank answers no more from then on, as 1@50"),
};

constexpr cohort_component kSim = sdk::collective<Sim>("sim", "a slow network, simulated over another collective")
                                      .options(kOptions)
                                      .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.sim", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kSim)
