// The model in parts, one on each device of a process, and ddp over the processes. The host runs pieces of each batch
// through the parts, and the runtime's base averages gradients; this layer says where the model is cut.
#include <algorithm>
#include <string>

#include <cohort/sdk/parts.hpp>

#include "named_cut.hpp"
#include "no_fit.hpp"
#include "partition.hpp"

namespace {

namespace sdk = cohort::sdk;
using namespace cohort::balanced;

class Balanced : public sdk::StrategyInParts<Balanced> {
 public:
  void create(const sdk::Options& options) {
    parts_ = static_cast<int32_t>(options.integer("parts"));
    forward_first_ = options.text("schedule") == "gpipe";
    cut_ = options.text("cut");
    memory_ = options.bytes("memory");
  }

  void plan(const cohort_job& job, cohort_plan& plan) {
    if (parts_ == 0) parts_ = job.num_devices;
    if (job.num_devices % parts_ != 0) {
      throw sdk::invalid_argument(
          "parts=" + std::to_string(parts_) + " lays a model on as many devices, but each node has " +
          std::to_string(job.num_devices) + "; ask for a multiple of them with --devices, or for other parts");
    }
    plan.processes_per_node = job.num_devices / parts_;
    plan.replicas_per_process = 1;
    const bool is_alone = plan.processes_per_node * job.num_nodes == 1;
    plan.launch = job.external_world_size > 0 || is_alone ? COHORT_LAUNCH_NONE : COHORT_LAUNCH_EXEC;
  }

  uint32_t num_parts() const { return static_cast<uint32_t>(parts_); }
  bool runs_forward_first() const { return forward_first_; }

  void cut(const cohort_cut_args& args) const {
    const Chain chain(args.units, args.num_units);
    const std::vector<Room> rooms = rooms_of(args);
    const Cut cut = cut_of(chain, rooms);
    std::copy(cut.begin(), cut.end(), args.first_units);
    for (uint32_t part = 0; part < args.num_parts; ++part) {
      args.in_flight[part] = forward_first_ ? 0 : static_cast<uint32_t>(rooms[part].in_flight);
    }
  }

 private:
  // Under 1f1b a part keeps a piece for itself and one for each later part, until those give gradients back.
  std::vector<Room> rooms_of(const cohort_cut_args& args) const {
    std::vector<Room> rooms;
    const uint32_t pieces = std::max(args.num_pieces, 1u);
    for (uint32_t part = 0; part < args.num_parts; ++part) {
      rooms.push_back({memory_ != 0 ? memory_ : args.limits[part],
                       forward_first_ ? pieces : std::min(pieces, args.num_parts - part)});
    }
    return rooms;
  }

  Cut cut_of(const Chain& chain, const std::vector<Room>& rooms) const {
    if (cut_ == "auto") {
      if (const auto fastest = fastest_cut(chain, rooms)) return *fastest;
      throw sdk::invalid_argument(no_cut_fits(chain, rooms));
    }
    const Cut named = named_cut(chain, cut_, rooms.size());
    for (std::size_t part = 0; part < named.size(); ++part) {
      const std::size_t end = part + 1 < named.size() ? named[part + 1] : chain.size();
      if (!chain.fits(named[part], end, rooms[part])) {
        throw sdk::invalid_argument(named_cut_does_not_fit(chain, rooms, named));
      }
    }
    return named;
  }

  int32_t parts_ = 0;  // 0: all devices, until there is a plan
  bool forward_first_ = false;
  std::string cut_;
  uint64_t memory_ = 0;  // bytes of each device; 0: its own
};

sdk::Answer supports(const sdk::Query& query) {
  switch (query.use()) {
    case COHORT_USE_OWN_LOOP:
      return sdk::no("a forward pass of one's own is not run in pieces through the parts", "choose --strategy=ddp");
    case COHORT_USE_BY_HAND:
      return sdk::no("its parts take one step together", "choose --strategy=ddp");
    case COHORT_USE_GRAPH:
      return sdk::no("a step goes over several devices", "choose --strategy=ddp");
    default:
      return sdk::yes_to_known(query, {COHORT_USE_DEVICE_TYPE, COHORT_USE_CLOSURES, COHORT_USE_JOIN,
                                       COHORT_USE_LOSS_SCALER, COHORT_USE_DEVICES, COHORT_USE_PRECISION});
  }
}

constexpr cohort_option kOptions[] = {
    sdk::option("parts", "int[0..4096]", "0",
                "devices of each process, with a part of the model on each; 0: all of a node"),
    sdk::option("schedule", "enum(1f1b|gpipe)", "1f1b",
                "1f1b: backward of a piece begins as soon as it can; gpipe: when all pieces have ended forward"),
    sdk::option("cut", "string", "auto",
                "names of the modules that begin the later parts, joined by '+'; auto: measured"),
    sdk::option("memory", "size", "0", "what a part may take of its device; 0: not limited"),
};

constexpr cohort_component kBalanced =
    sdk::strategy<Balanced>("balanced", "one process for several devices; the model is cut into parts, one on each")
        .options(kOptions)
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.balanced", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kBalanced)
