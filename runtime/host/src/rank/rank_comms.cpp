#include "rank_comms.hpp"

#include <optional>
#include <utility>

#include "communicator/cpu_memory.hpp"
#include "communicator/op_args.hpp"
#include "selection/names.hpp"

namespace cohort::host {
namespace {

// Returns the key of this run alone: two runs of one secret have nothing in common.
std::optional<Key> key_of_run(const RankSetup& setup) {
  if (!setup.secret) return std::nullopt;
  return derived_key(*setup.secret, "cohort/" + setup.topology.run_id);
}

}  // namespace

RankComms::RankComms(const RankSetup& setup, HostObject& host, const RankDevices& devices,
                     cohort_accelerator* accelerator, int32_t device_type)
    : setup_(setup), host_(host), devices_(devices), device_type_(device_type) {
  CommunicatorSet::Choice choice{
      setup.selection.collective, setup.deterministic, kDefaultCollectives, key_of_run(setup), {}};
  if (setup.selection.parts > 1) {
    for (const Device device : devices.all()) choice.devices.push_back(device.index);
  }
  set_ = std::make_unique<CommunicatorSet>(setup.plugins, host, std::move(choice), accelerator);
  set_->open_plugins(setup.topology.world_size, setup.topology.num_nodes, device_type);
}

cohort_comm* RankComms::user() {
  if (!user_) {
    user_ = set_->split(world_, 0, setup_.topology.rank);
    host_.recorder().name(user_, "user");
  }
  return user_;
}

cohort_comm* RankComms::connect(const cohort_dist_args& args) {
  const std::string name = "cohort/" + setup_.topology.run_id + "/world";
  cohort_connect_args group{};
  group.struct_size = sizeof group;
  group.rank = args.rank;
  group.size = args.world_size;
  group.device_type = device_type_;
  if (!devices_.all().empty()) group.device_index = devices_.all().front().index;
  group.node_rank = args.node_rank;
  group.timeout_ns = args.timeout_ns;
  group.store = args.store;
  group.name = name.c_str();
  group.master_addr = args.master_addr;
  group.num_nodes = args.num_nodes;
  return set_->open(nullptr, group);
}

void RankComms::bind(cohort_comm* comm) {
  world_ = comm;
  host_.recorder().name(world_, "world");
  control_ = named_part("control", 0);
}

void RankComms::bind_alone() {
  world_ = set_->open_alone();
  host_.recorder().name(world_, "world");
}

cohort_comm* RankComms::named_part(const std::string& name, int color, uint32_t lane) {
  cohort_comm* const made = set_->split(world_, color, setup_.topology.rank, {nullptr, lane});
  if (made) host_.recorder().name(made, name);
  return made;
}

RoleComms RankComms::split_roles(const std::string& name, uint32_t lane) {
  const Topology& topology = setup_.topology;
  RoleComms made;
  made.world = named_part(name + "/world", 0, lane);
  // On one node "all ranks of this node" are all ranks: no second communicator is needed.
  made.node = topology.num_nodes == 1
                  ? made.world
                  : named_part(name + "/node " + std::to_string(topology.node_rank), topology.node_rank, lane);
  made.leaders = named_part(name + "/leaders", topology.local_rank == 0 ? 0 : -1, lane);
  return made;
}

// Not through the store, where a rank that has died is only missed.
bool RankComms::is_same_on_all_ranks(uint64_t value, const std::string& purpose) {
  uint64_t least[] = {value, ~value};  // the second one: that of all others' greatest
  cohort_op_args args = op_args(COHORT_UINT64, least, 2);
  args.reduce = COHORT_REDUCE_MIN;
  on_control(purpose.c_str(), [&](cohort_comm* comm) { return run_all_reduce(comm, args, nullptr); });
  return least[0] == ~least[1];
}

void RankComms::broadcast(void* data, uint64_t nbytes, int root, const char* purpose) {
  cohort_op_args args = op_args(COHORT_UINT8, data, nbytes);
  args.root = root;
  on_control(purpose, [&](cohort_comm* comm) { return run_broadcast(comm, args, nullptr); });
}

void RankComms::broadcast(std::string& text, const char* purpose) {
  uint64_t size = text.size();
  broadcast(&size, sizeof size, 0, purpose);
  text.resize(size);
  if (size > 0) broadcast(text.data(), size, 0, purpose);
}

BucketMemory RankComms::allocate(Device device, uint64_t nbytes) {
  // What the collective allocates on: the rank's first device.
  const bool is_connected =
      device.type == device_type_ && (devices_.all().empty() || device.index == devices_.all().front().index);
  if (device.is_cpu() && !is_connected) return {alloc_cpu_memory(nbytes), free_cpu_memory};
  if (device.is_cpu() || (is_connected && world_->collective->vt->alloc)) {
    return {set_->alloc(world_, nbytes), [this](void* memory) { release_memory(world_, memory); }};
  }
  BucketMemory memory(devices_.alloc(device, nbytes),
                      [devices = devices_, device](void* freed) { devices.release_or_leave(device, freed); });
  devices_.fill_with_zeros(device, memory.get(), nbytes);
  return memory;
}

// A collective may take memory away from work that is under way: ncclMemFree and nvshmem_free do, unlike cudaFree.
void RankComms::release_memory(cohort_comm* comm, void* memory) {
  devices_.wait_if_possible();
  set_->release(comm, memory);
}

void RankComms::close(bool has_lent_memory) {
  if (has_lent_memory) static_cast<void>(set_.release());
  set_.reset();
}

}  // namespace cohort::host
