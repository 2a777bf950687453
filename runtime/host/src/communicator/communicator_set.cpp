#include <algorithm>
#include <utility>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/store.hpp>
#include <cohort/host/uses.hpp>

#include "communicator/alone.hpp"
#include "communicator/staging.hpp"
#include "given/given_args.hpp"

namespace cohort::host {

// A part of a store that belongs to one communicator, as the plugin sees it.
struct CommunicatorSet::PrivateStore {
  PrivateStore(cohort_store* store, std::string prefix) : prefixed(store, std::move(prefix)), abi(prefixed) {}
  PrefixedStore prefixed;
  AbiStore abi;
};

namespace {

// Asks whether the collective can connect a group with tensors on such a device.
Answer can_connect(PluginHost& plugins, const cohort_component& component, const Spec& spec,
                   const cohort_connect_args& group, int32_t device_type) {
  const int nodes = std::max(1, group.num_nodes);
  return ask_collective(plugins, component, spec, device_type,
                        {.world_size = group.size, .num_nodes = nodes, .local_world_size = group.size / nodes});
}

void check_flags(const cohort_comm& comm, const char* slot) {
  const std::string problem = flags_problem(comm.flags, COHORT_COMM_SHARED_MEMORY, "cohort_comm");
  if (problem.empty()) return;
  throw PluginRefused("collective '" + Collective::of(comm.collective).name() + "', " + slot + " " + problem);
}

}  // namespace

CommunicatorSet::CommunicatorSet(PluginHost& plugins, HostObject& host, Spec chosen, bool deterministic,
                                 cohort_accelerator* accelerator)
    : plugins_(plugins),
      host_(host),
      chosen_(std::move(chosen)),
      deterministic_(deterministic),
      accelerator_(accelerator) {}

CommunicatorSet::~CommunicatorSet() {
  std::for_each(comms_.rbegin(), comms_.rend(), [](auto& c) { c->collective->vt->close(c->collective, c.get()); });
}

cohort_comm* CommunicatorSet::open(const char* text, const cohort_connect_args& group) {
  const Spec spec = text ? parse_spec(text, "comm/1.open") : chosen_;
  cohort_connect_args args = given(group);
  if (!args.store || !args.name || args.timeout_ns <= 0) {
    throw UserError("comm/1.open: the group needs a store, a name and a timeout above 0");
  }
  if (args.rank < 0 || args.rank >= args.size) {
    throw UserError("comm/1.open: there is no rank " + std::to_string(args.rank) + " in a group of " +
                    std::to_string(args.size));
  }
  const cohort_component& component = plugins_.open(Kind::kCollective, spec.name);
  const CheckedOptions options =
      check_options({component.options, component.num_options}, spec.options, "collective '" + spec.name + "'");
  const Answer answer = can_connect(plugins_, component, spec, args, args.device_type);
  const bool is_staged = answer.is_no() && accelerator_ && args.device_type != COHORT_DEVICE_CPU &&
                         !can_connect(plugins_, component, spec, args, COHORT_DEVICE_CPU).is_no();
  if (answer.is_no() && !is_staged) {
    throw UserError(answer.text("connect " + std::to_string(args.size) + " rank(s) on " +
                                std::to_string(std::max(1, args.num_nodes)) + " node(s)"));
  }
  if (is_staged) args.device_type = COHORT_DEVICE_CPU;
  if (is_staged) args.device_index = 0;
  auto made =
      std::make_unique<Collective>(component, options, host_, deterministic_, is_staged ? accelerator_ : nullptr);
  if (is_staged && !std::exchange(said_staging_, true)) {
    host_.log().info("collective " + spec.name + " moves host memory: tensors are staged through pinned memory");
  }
  auto store = std::make_unique<PrivateStore>(group.store, std::string(group.name) + "/");
  args.store = store->abi.get();
  auto comm = std::make_unique<cohort_comm>();
  // Kept before connecting: what a failed connect leaves behind still refers to them.
  Collective& collective = *collectives_.emplace_back(std::move(made));
  stores_.push_back(std::move(store));
  host_.recorder().name(comm.get(), group.name);
  const uint64_t number = host_.recorder().begin(comm.get(), {.operation = "connect"});
  const cohort_status status = collective.connect(args, *comm);
  host_.recorder().end(comm.get(), number, status, host_.peers_of(status));
  host_.check(status, "collective '" + collective.name() + "', connect");
  check_flags(*comm, "connect");
  return keep(std::move(comm));
}

cohort_comm* CommunicatorSet::open_alone() {
  const bool is_device = accelerator_ && accelerator_->vt->device_type != COHORT_DEVICE_CPU;
  Collective& alone = *collectives_.emplace_back(std::make_unique<Collective>(
      alone_collective(), CheckedOptions{}, host_, deterministic_, is_device ? accelerator_ : nullptr));
  auto comm = std::make_unique<cohort_comm>();
  cohort_connect_args group{};
  group.struct_size = sizeof group;
  group.size = group.num_nodes = 1;
  group.name = "world";
  host_.check(alone.connect(group, *comm), "the world of one rank");
  return keep(std::move(comm));
}

cohort_comm* CommunicatorSet::split(cohort_comm* comm, int color, int key) {
  auto part = std::make_unique<cohort_comm>();
  part->struct_size = sizeof(cohort_comm);
  part->collective = comm->collective;
  host_.check_process();
  const uint64_t number = host_.recorder().begin(comm, {.operation = "split"});
  const cohort_status status = comm->collective->vt->split(comm->collective, comm, color, key, part.get());
  host_.recorder().end(comm, number, status, host_.peers_of(status));
  host_.check(status, "splitting a communicator");
  check_flags(*part, "split");
  return color < 0 ? nullptr : keep(std::move(part));
}

void CommunicatorSet::abort() {
  const std::lock_guard lock(mutex_);
  for (auto& comm : comms_) comm->collective->vt->abort(comm->collective, comm.get());
}

cohort_comm* CommunicatorSet::keep(std::unique_ptr<cohort_comm> comm) {
  const std::lock_guard lock(mutex_);
  return comms_.emplace_back(std::move(comm)).get();
}

}  // namespace cohort::host
