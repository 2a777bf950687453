// The collective `hier`: one collective inside a node, another across nodes.
#include <memory>
#include <string>
#include <vector>

#include <cohort/sdk/collective.hpp>
#include <cohort/sdk/store_round.hpp>

#include "communicator.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::hier::Communicator;
using cohort::hier::Layout;

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
      nodes.push_back(std::stoi(node));
    }
    Layout layout(nodes);
    sdk::OwnedComm node = open_node(args, layout);
    sdk::OwnedComm across = layout.num_nodes() > 1 ? open_across(args, layout) : sdk::OwnedComm();
    return std::make_unique<Communicator>(std::move(layout), args.rank, std::move(node), std::move(across));
  }

 private:
  std::string node_, across_;

  sdk::OwnedComm open_node(const cohort_connect_args& args, const Layout& layout) {
    const std::string name = std::string(args.name) + "/node" + std::to_string(layout.node(args.rank));
    std::vector<int32_t> job_ranks;
    for (int rank = 0; rank < layout.size(); ++rank) {
      if (layout.node(rank) == layout.node(args.rank))
        job_ranks.push_back(args.job_ranks ? args.job_ranks[rank] : rank);
    }
    cohort_connect_args group = args;
    group.job_ranks = job_ranks.data();
    group.rank = layout.local(args.rank);
    group.size = layout.node_size(args.rank);
    group.name = name.c_str();
    group.num_nodes = 1;
    return host().open_comm(node_.c_str(), group);
  }
  sdk::OwnedComm open_across(const cohort_connect_args& args, const Layout& layout) {
    const std::string name = std::string(args.name) + "/across";
    cohort_connect_args group = args;
    group.name = name.c_str();
    group.num_nodes = layout.num_nodes();
    return host().open_comm(across_.c_str(), group);
  }
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
