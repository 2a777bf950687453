#include "rank_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/machine.hpp>

#include "communicator/cpu_memory.hpp"
#include "communicator/op_args.hpp"
#include "given/given_args.hpp"
#include "selection/names.hpp"
#include "store/meeting.hpp"

namespace cohort::host {
namespace {

constexpr const char* kDefaultLane = "default";
constexpr std::chrono::seconds kLaneSlack{30};  // tasks end by their own deadline; this only guards the guard

// Returns the key of this run alone: two runs of one secret have nothing in common.
std::optional<Key> key_of_run(const RankSetup& setup) {
  if (!setup.secret) return std::nullopt;
  return derived_key(*setup.secret, "cohort/" + setup.topology.run_id);
}

}  // namespace

RankState::RankState(RankSetup given)
    : setup(std::move(given)), host(setup.log, find_service, this), devices(setup.device_port), lent_memory(devices) {
  const Selection& selection = setup.selection;
  accelerator = std::make_unique<Accelerator>(setup.plugins.open(Kind::kAccelerator, selection.accelerator), host);
  accelerator->take_kernels();
  stay_near_device();  // before there are threads
  select_device();
  CommunicatorSet::Choice choice{selection.collective, setup.deterministic, kDefaultCollectives, key_of_run(setup)};
  comms = std::make_unique<CommunicatorSet>(setup.plugins, host, std::move(choice), accelerator->get());
  comms->open_plugins(world_size(), setup.topology.num_nodes, accelerator->device_type());
  buckets = std::make_unique<Buckets>(
      devices, [this](Device device, uint64_t nbytes) { return allocate(device, nbytes); },
      [this](uint32_t parameter) { return model->gradient_data(0, parameter); });
  lanes.push_back(std::make_unique<RankLane>(RankLane{kDefaultLane, {}, nullptr}));
  layers = std::make_unique<StrategyLayers>(resolve_layers(setup.plugins, selection.strategy, selection.layers),
                                            base_strategy(), this, host);
}

RankState::~RankState() {
  host.check_process();
  if (!finished) comms->abort();  // so that the lane does not wait for ranks that are gone
  // Before what their tasks refer to: the list of lanes itself as well.
  for (const auto& lane : lanes) {
    if (lane->thread) lane->thread->stop();
  }
  engine.reset();
  const bool left_memory = buckets->left_memory();
  buckets.reset();
  layers.reset();
  lent_memory.release_all();
  // Tensors of the program lie in memory of a communicator: it stays until the process ends.
  if (left_memory) static_cast<void>(comms.release());
  comms.reset();
}

std::string RankState::who() const {
  return "rank " + std::to_string(rank()) + " (pid " + std::to_string(getpid()) + " on " + host_name() + ")";
}

void RankState::meet(const std::string& topic, std::string_view text, std::string_view problem) {
  // Rank 0 serves the host's own store, and no other job has written to it. The keys then need no run id, and ranks of
  // other runs that come by mistake are found.
  const bool is_fresh = own_store != nullptr;
  PrefixedStore places(store, is_fresh ? "cohort/meeting/" : "cohort/" + setup.topology.run_id + "/meeting/");
  const Agreement place{places, rank(), world_size(), setup.connect_timeout, who()};
  has_met = host::meet({place, setup.topology, is_fresh}, topic, text);
  if (has_met && when_met) when_met();
  if (has_met) return;
  throw_difference({*job_store, rank(), world_size(), setup.connect_timeout, who(), agreements++}, topic, text,
                   problem);
}

void RankState::agree_on(const std::string& topic, std::string_view text, std::string_view problem) {
  if (!job_store) throw UserError("ranks cannot compare their " + topic + ": the strategy gave no store");
  const Agreement agreement{*job_store, rank(), world_size(), setup.timeout, who(), agreements++};
  if (!control) return agree(agreement, topic, text, problem);
  if (!is_same_on_all_ranks(fingerprint(text), "comparing the ranks' " + topic)) {
    throw_difference(agreement, topic, text, problem);
  }
}

// Not through the store, where a rank that has died is only missed.
bool RankState::is_same_on_all_ranks(uint64_t value, const std::string& purpose) {
  uint64_t least[] = {value, ~value};  // the second one: that of all others' greatest
  cohort_op_args args = op_args(COHORT_UINT64, least, 2);
  args.reduce = COHORT_REDUCE_MIN;
  on_control(purpose.c_str(), [&](cohort_comm* comm) { return run_all_reduce(comm, args, nullptr); });
  return least[0] == ~least[1];
}

void RankState::use_store(cohort_dist_args& args) {
  if (!args.store) {
    own_store = setup.open_store(args);
    own_abi_store = std::make_unique<AbiStore>(*own_store);
    args.store = own_abi_store->get();
  }
  adopt_store(args.store);
}

void RankState::adopt_store(cohort_store* given) {
  check_store(*given);
  store = given;
  job_store = std::make_unique<PrefixedStore>(store, "cohort/" + setup.topology.run_id + "/host/");
}

cohort_comm* RankState::connect_world(const cohort_dist_args& args) {
  const std::string name = "cohort/" + setup.topology.run_id + "/world";
  cohort_connect_args group{};
  group.struct_size = sizeof group;
  group.rank = args.rank;
  group.size = args.world_size;
  group.device_type = accelerator->device_type();
  if (!devices.all().empty()) group.device_index = devices.all().front().index;
  group.node_rank = args.node_rank;
  group.timeout_ns = args.timeout_ns;
  group.store = args.store;
  group.name = name.c_str();
  group.master_addr = args.master_addr;
  group.num_nodes = args.num_nodes;
  return comms->open(nullptr, group);
}

void RankState::bind_world(cohort_comm* comm) {
  root = comm;
  host.recorder().name(root, "world");
  control = named_part("control", 0);
  default_lane().comms = split_roles(default_lane().name, 0);
  start_lane();
}

void RankState::bind_alone() {
  root = comms->open_alone();
  host.recorder().name(root, "world");
  default_lane().comms = split_roles(default_lane().name, 0);
  start_lane();
}

cohort_comm* RankState::named_part(const std::string& name, int color, uint32_t lane) {
  cohort_comm* const made = comms->split(root, color, rank(), {nullptr, lane});
  if (made) host.recorder().name(made, name);
  return made;
}

RoleComms RankState::split_roles(const std::string& name, uint32_t lane) {
  const Topology& topology = setup.topology;
  RoleComms made;
  made.world = named_part(name + "/world", 0, lane);
  // On one node "all ranks of this node" are all ranks: no second communicator is needed.
  made.node = topology.num_nodes == 1
                  ? made.world
                  : named_part(name + "/node " + std::to_string(topology.node_rank), topology.node_rank, lane);
  made.leaders = named_part(name + "/leaders", topology.local_rank == 0 ? 0 : -1, lane);
  return made;
}

void RankState::stay_near_device() {
  if (devices.all().empty()) return;
  const cohort_device_info info = accelerator->device_info(devices.all().front().index);
  const std::string address(info.pci_address, ::strnlen(info.pci_address, sizeof info.pci_address));
  const std::string list = cores_near(address);
  if (const int cores = stay_on_cores(list)) {
    setup.log.debug("threads stay on " + std::to_string(cores) + " of the cores near device " + address + ": " + list);
  }
}

void RankState::select_device() {
  if (!devices.all().empty()) accelerator->select(devices.all().front().index);
}

std::unique_ptr<Lane> RankState::make_lane(const std::string& name) {
  auto lane = std::make_unique<Lane>(name, setup.timeout + kLaneSlack, &host, devices);
  if (!devices.all().empty()) lane->run([this] { select_device(); });
  return lane;
}

void RankState::start_lane() {
  default_lane().thread = make_lane(default_lane().name);
}

RankLane* RankState::current_lane() const {
  const auto found =
      std::ranges::find_if(lanes, [](const auto& lane) { return lane->thread && lane->thread->is_current_thread(); });
  return found == lanes.end() ? nullptr : found->get();
}

void RankState::require_idle_lanes(const std::string& call) const {
  const auto is_busy = [](const auto& lane) { return lane->thread && !lane->thread->is_idle(); };
  if (!std::ranges::any_of(lanes, is_busy)) return;
  throw UserError(call + " while tasks are under way; call it before the first submit or when all tasks are done");
}

uint32_t RankState::lane_named(const std::string& name) {
  const auto found = std::ranges::find(lanes, name, &RankLane::name);
  const auto index = static_cast<uint32_t>(found - lanes.begin());
  if (found != lanes.end()) return index;
  require_idle_lanes("lane/1.create of '" + name + "'");
  auto made = std::make_unique<RankLane>();
  made->name = name;
  if (root) made->comms = split_roles(name, index);
  made->thread = make_lane(name);
  lanes.push_back(std::move(made));
  return index;
}

void RankState::broadcast(void* data, uint64_t nbytes, int root_rank, const char* purpose) {
  cohort_op_args args = op_args(COHORT_UINT8, data, nbytes);
  args.root = root_rank;
  on_control(purpose, [&](cohort_comm* comm) { return run_broadcast(comm, args, nullptr); });
}

void RankState::broadcast(std::string& text, const char* purpose) {
  uint64_t size = text.size();
  broadcast(&size, sizeof size, 0, purpose);
  text.resize(size);
  if (size > 0) broadcast(text.data(), size, 0, purpose);
}

BucketMemory RankState::allocate(Device device, uint64_t nbytes) {
  const bool is_connected = device.type == accelerator->device_type();  // what the collective allocates on
  if (device.is_cpu() && !is_connected) return {alloc_cpu_memory(nbytes), free_cpu_memory};
  if (device.is_cpu() || (is_connected && root->collective->vt->alloc)) {
    return {comms->alloc(root, nbytes), [this](void* memory) { release_memory(root, memory); }};
  }
  BucketMemory memory(devices.alloc(device, nbytes),
                      [devices = devices, device](void* freed) { devices.release_or_leave(device, freed); });
  devices.fill_with_zeros(device, memory.get(), nbytes);
  return memory;
}

// A collective may take memory away from work that is under way: ncclMemFree and nvshmem_free do, unlike cudaFree.
void RankState::release_memory(cohort_comm* comm, void* memory) {
  devices.wait_if_possible();
  comms->release(comm, memory);
}

void RankState::step_optimizer(uint32_t phase) {
  OptimizerPort& optimizers = model->optimizers();
  if (owners.is_owned(phase)) return optimizers.step(phase, owners.own(phase));
  optimizers.step(phase);
}

void RankState::with_archive(StrategyState& strategy_state, Archive::Use use) {
  const bool saves = use == Archive::Use::kSave;
  const cohort_strategy_vt& slots = *strategy()->vt;
  archive.emplace(Archive{strategy_state, use});
  const cohort_status status = saves ? slots.save_state(strategy()) : slots.load_state(strategy());
  archive.reset();
  host.check(status, saves ? "save_state" : "load_state");
}

}  // namespace cohort::host
