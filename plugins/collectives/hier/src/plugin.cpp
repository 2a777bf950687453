// The collective `hier`: one collective inside a node, another across nodes.
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/store_round.hpp>

#include "communicator.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::hier::Communicator;
using cohort::hier::Group;
using cohort::hier::Layout;
using cohort::hier::Parts;
using cohort::hier::Wires;

class Hier : public sdk::Collective<Hier, Communicator> {
 public:
  static constexpr bool kRoundsOnce = true;

  void create(const sdk::Options& options) {
    node_ = options.text("node");
    across_ = options.text("across");
  }

  std::unique_ptr<Communicator> connect(const cohort_connect_args& args) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(args.timeout_ns);
    std::vector<int> nodes;
    for (const std::string& node : sdk::store_round(args, "hier/node", std::to_string(args.node_rank), deadline)) {
      const auto rank = static_cast<int>(nodes.size());
      nodes.push_back(
          cohort::hier::node_from(node, "rank " + std::to_string(args.job_ranks ? args.job_ranks[rank] : rank)));
    }
    std::vector<int> ranks(nodes.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    Group everybody{args.name, std::move(ranks), args.rank, Layout(nodes)};
    auto wires = std::make_shared<const Wires>(host(), node_, across_, args);
    Parts parts;
    parts.node = wires->open_node(everybody);
    wires->open_across(everybody, parts);
    return std::make_unique<Communicator>(std::move(wires), std::move(everybody), std::move(parts));
  }

 private:
  std::string node_, across_;
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_DEVICE_TYPE && query.value() != COHORT_DEVICE_CPU) {
    return sdk::no("it moves CPU memory only", "choose --accelerator=cpu, or one with pinned memory");
  }
  return sdk::yes_to_known(query);
}

constexpr cohort_option kOptions[] = {
    sdk::option("node", "collective", "shm", "collective inside a node; ,, separates its own options"),
    sdk::option("across", "collective", "gloo", "collective across nodes, as in across=gloo,,iface=eth0"),
};

constexpr cohort_component kHier = sdk::collective<Hier>("hier", "one collective inside a node, another across nodes")
                                       .options(kOptions)
                                       .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.hier", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kHier)
