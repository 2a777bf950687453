// The communicators of a rank: opened, split, aborted and closed in an order that plugins can rely on.
//
// A root communicator keeps its collective and its store until it is closed, which is after its parts. A communicator
// takes its place in the order when it is connected: one that is made of others then comes after them and is closed
// before them, so that it can close them itself.
#include <algorithm>
#include <utility>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/store.hpp>
#include <cohort/host/uses.hpp>
#include <cohort/sdk/duration.hpp>

#include "accelerator/accelerator.hpp"
#include "communicator/alone.hpp"
#include "communicator/comm_of_parts.hpp"
#include "communicator/cpu_memory.hpp"
#include "communicator/staging.hpp"
#include "communicator/twins.hpp"
#include "given/given_args.hpp"

namespace cohort::host {

struct CommunicatorSet::Entry {
  CommPlace place;
  std::unique_ptr<StorePart> store;        // of a root communicator
  std::unique_ptr<Collective> collective;  // of a root communicator
  cohort_comm comm{};
  bool is_connected = false;    // the plugin holds something for it until it is closed
  Entry* parent = nullptr;      // that it was split from; null for a root
  Entry* root = nullptr;        // of all parents the first; itself for a root
  unsigned num_parts = 0;       // that were split from it and are open
  std::unique_ptr<Entry> twin;  // the same ranks' group of CPU memory, if this one moves device memory only
  std::vector<std::pair<int32_t, std::unique_ptr<Entry>>> others;  // those of the rank's other devices
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

void abort_one(cohort_comm& comm) {
  comm.collective->vt->abort(comm.collective, &comm);
}

// Returns the key that rank 0 of a group draws and leaves in the group's store; nothing if it leaves none in time.
std::optional<Key> shared_key(Store& store, const cohort_connect_args& group) {
  constexpr const char* kName = "key";
  if (group.rank == 0) {
    const Key drawn = random_key();
    store.set(kName, {reinterpret_cast<const char*>(drawn.data()), drawn.size()});
    return drawn;
  }
  const std::optional<std::string> text = store.get(kName, std::chrono::nanoseconds(group.timeout_ns));
  Key key{};
  if (!text) return std::nullopt;
  if (text->size() != key.size()) throw PeerFailed("the job's store has no key for '" + std::string(group.name) + "'");
  std::copy(text->begin(), text->end(), key.begin());
  return key;
}

void check_group(const cohort_connect_args& group) {
  if ((!group.store && group.size > 1) || !group.name || group.timeout_ns <= 0) {
    throw UserError("comm/1.open: the group needs a store, a name and a timeout above 0");
  }
  if (group.rank >= 0 && group.rank < group.size) return;
  throw UserError("comm/1.open: there is no rank " + std::to_string(group.rank) + " in a group of " +
                  std::to_string(group.size));
}

}  // namespace

CommunicatorSet::CommunicatorSet(PluginHost& plugins, HostObject& host, Choice choice, cohort_accelerator* accelerator)
    : plugins_(plugins), host_(host), choice_(std::move(choice)), accelerator_(accelerator) {}

CommunicatorSet::~CommunicatorSet() {
  while (!entries_.empty()) close(&entries_.back().comm);
}

const cohort_host* CommunicatorSet::door_for(const std::string& collective) {
  return host_.get_for(collective, find_service_of_collectives, this);
}

const void* CommunicatorSet::kernels(int32_t device_type, const char* id) const {
  return accelerator_ ? Accelerator::of(accelerator_).kernels(device_type, id) : nullptr;
}

void CommunicatorSet::open_plugins(int world_size, int num_nodes, int32_t device_type) {
  if (choice_.spec.name.empty()) return;
  open_collective(plugins_, choice_.spec);
  cohort_connect_args group{};
  group.size = world_size;
  group.num_nodes = num_nodes;
  group.device_type = device_type;
  const cohort_component& component = plugins_.open(Kind::kCollective, choice_.spec.name);
  if (!moves_device_memory_only(component, choice_.spec, group)) return;
  open_collective(plugins_, Spec(twin_component(choice_.spec.name, group).name));
}

bool CommunicatorSet::moves_device_memory_only(const cohort_component& component, const Spec& spec,
                                               const cohort_connect_args& group) const {
  return accelerator_ && group.device_type != COHORT_DEVICE_CPU &&
         !can_connect(plugins_, component, spec, group, group.device_type).is_no() &&
         can_connect(plugins_, component, spec, group, COHORT_DEVICE_CPU).is_no();
}

// Throws UserError if the collective cannot serve the group, neither itself nor with what the host adds.
Moves CommunicatorSet::moves_of(const cohort_component& component, const Spec& spec,
                                const cohort_connect_args& group) const {
  if (moves_device_memory_only(component, spec, group)) return Moves::kDeviceMemory;
  const Answer answer = can_connect(plugins_, component, spec, group, group.device_type);
  if (!answer.is_no()) return Moves::kGiven;
  const bool may_stage = accelerator_ && group.device_type != COHORT_DEVICE_CPU;
  if (may_stage && !can_connect(plugins_, component, spec, group, COHORT_DEVICE_CPU).is_no()) return Moves::kCpuMemory;
  throw UserError(answer.text("connect " + std::to_string(group.size) + " rank(s) on " +
                              std::to_string(std::max(1, group.num_nodes)) + " node(s)"));
}

const cohort_component& CommunicatorSet::twin_component(const std::string& device_collective,
                                                        const cohort_connect_args& group) const {
  for (std::string_view rest = choice_.cpu_collectives; !rest.empty();) {
    const std::string name(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const cohort_component* const component = plugins_.find(Kind::kCollective, name);
    if (component && !can_connect(plugins_, *component, Spec(name), group, COHORT_DEVICE_CPU).is_no())
      return *component;
  }
  throw UserError("collective '" + device_collective + "' moves device memory only, and none of " +
                  choice_.cpu_collectives + " can move the host's for " + std::to_string(group.size) + " rank(s) on " +
                  std::to_string(std::max(1, group.num_nodes)) + " node(s); install one that can");
}

cohort_comm* CommunicatorSet::open(const char* text, const cohort_connect_args& group, const cohort_host* owner) {
  const Spec spec = text ? parse_spec(text, "comm/1.open") : choice_.spec;
  const cohort_connect_args args = given(group);
  check_group(args);
  if (args.size == 1 && spec.name.empty()) return open_alone(owner);  // none was chosen for a job of one rank
  const cohort_component& component = plugins_.open(Kind::kCollective, spec.name);
  if (!args.store) return open_alone(owner);
  const Moves moves = moves_of(component, spec, args);
  const cohort_component* const twin = moves == Moves::kDeviceMemory ? &twin_component(spec.name, args) : nullptr;
  return make({owner, 0}, [&](Entry& entry) {
    connect(entry, component, spec, args, moves);
    if (!twin) return true;
    connect_twin(entry, *twin, args);
    connect_other_devices(entry, component, spec, args);
    return true;
  });
}

void CommunicatorSet::connect_twin(Entry& entry, const cohort_component& component, const cohort_connect_args& group) {
  const std::string name = std::string(group.name) + " in host memory";
  cohort_connect_args args = group;
  args.name = name.c_str();
  args.device_type = COHORT_DEVICE_CPU;
  args.device_index = 0;
  entry.twin = std::make_unique<Entry>();
  connect(*entry.twin, plugins_.open(Kind::kCollective, component.name), Spec(component.name), args, Moves::kGiven);
  entry.collective->twins()->set(&entry.comm, &entry.twin->comm);
  host_.log().info("collective " + entry.collective->name() + " moves device memory: host memory goes by " +
                   component.name);
}

void CommunicatorSet::connect_other_devices(Entry& entry, const cohort_component& component, const Spec& spec,
                                            const cohort_connect_args& group) {
  for (size_t number = 1; number < choice_.devices.size(); ++number) {
    const std::string name = std::string(group.name) + " on device " + std::to_string(number);
    cohort_connect_args args = group;
    args.name = name.c_str();
    args.device_index = choice_.devices[number];
    Entry& other = *entry.others.emplace_back(args.device_index, std::make_unique<Entry>()).second;
    connect(other, component, spec, args, Moves::kDeviceMemory);
    entry.collective->twins()->set_of_device(&entry.comm, args.device_index, &other.comm);
  }
}

void CommunicatorSet::connect(Entry& entry, const cohort_component& component, const Spec& spec,
                              const cohort_connect_args& group, Moves moves) {
  const CheckedOptions options =
      check_options({component.options, component.num_options}, spec.options, "collective '" + spec.name + "'");
  const bool is_staged = moves == Moves::kCpuMemory;
  cohort_connect_args args = group;
  if (is_staged) args.device_type = COHORT_DEVICE_CPU;
  if (is_staged) args.device_index = 0;
  entry.store = std::make_unique<StorePart>(group.store, std::string(group.name) + "/");
  entry.collective = std::make_unique<Collective>(
      component, options, host_, Collective::Use{door_for(spec.name), choice_.deterministic, moves, accelerator_});
  if (is_staged && !std::exchange(said_staging_, true)) {
    host_.log().info("collective " + spec.name + " moves host memory: tensors are staged through pinned memory");
  }
  args.store = entry.store->abi.get();
  host_.recorder().name(&entry.comm, group.name);
  const uint64_t number = host_.recorder().begin(&entry.comm, {.operation = "connect"});
  const cohort_status status = connect_with_key(entry, args);
  host_.recorder().end(&entry.comm, number, status, host_.peers_of(status));
  host_.check(status, "collective '" + entry.collective->name() + "', connect");
  entry.is_connected = true;
  if (entry.collective->needs_one_order()) needs_one_order_ = true;
  check_flags(entry.comm, "connect");
}

cohort_status CommunicatorSet::connect_with_key(Entry& entry, cohort_connect_args args) {
  args.key = nullptr;
  args.key_nbytes = 0;
  if (args.size == 1) return entry.collective->connect(args, entry.comm);
  const std::optional<Key> key =
      choice_.run_key ? derived_key(*choice_.run_key, args.name) : shared_key(entry.store->prefixed, args);
  if (!key) {
    const std::vector<int> names =
        args.job_ranks ? std::vector<int>(args.job_ranks, args.job_ranks + args.size) : std::vector<int>();
    host_.leave_message(COHORT_DEADLINE_EXCEEDED,
                        "rank " + std::to_string(names.empty() ? 0 : names[0]) + " did not come to connect within " +
                            sdk::in_words(std::chrono::nanoseconds(args.timeout_ns)) +
                            "; look at its log, or raise --timeout",
                        {0});
    host_.number_peers(COHORT_DEADLINE_EXCEEDED, names);
    return COHORT_DEADLINE_EXCEEDED;
  }
  args.key = key->data();
  args.key_nbytes = static_cast<uint32_t>(key->size());
  return entry.collective->connect(args, entry.comm);
}

cohort_comm* CommunicatorSet::open_alone(const cohort_host* owner) {
  const bool is_device = accelerator_ && accelerator_->vt->device_type != COHORT_DEVICE_CPU;
  const Moves moves = is_device ? Moves::kCpuMemory : Moves::kGiven;
  const Collective::Use use{door_for("alone"), choice_.deterministic, moves, accelerator_};
  return make({owner, 0}, [&](Entry& entry) {
    entry.collective = std::make_unique<Collective>(alone_collective(), CheckedOptions{}, host_, use);
    cohort_connect_args group{};
    group.struct_size = sizeof group;
    group.size = group.num_nodes = 1;
    group.name = "world";
    host_.check(entry.collective->connect(group, entry.comm), "the world of one rank");
    return entry.is_connected = true;
  });
}

cohort_comm* CommunicatorSet::split(cohort_comm* comm, int color, int key, CommPlace place) {
  return make(place, [&](Entry& entry) {
    Entry& parent = entry_of(comm);
    host_.check_process();
    split(parent, entry, color, key);
    if (parent.twin) {
      entry.twin = std::make_unique<Entry>();
      split(*parent.twin, *entry.twin, color, key);
    }
    if (!entry.twin) return color >= 0;
    Twins& twins = *Collective::of(comm->collective).twins();
    twins.set(&entry.comm, &entry.twin->comm);
    for (const auto& [device, other] : parent.others) {
      Entry& part = *entry.others.emplace_back(device, std::make_unique<Entry>()).second;
      split(*other, part, color, key);
      twins.set_of_device(&entry.comm, device, &part.comm);
    }
    return color >= 0;
  });
}

void CommunicatorSet::split(Entry& parent, Entry& entry, int color, int key) {
  cohort_comm* const comm = &parent.comm;
  entry.parent = &parent;
  entry.root = parent.root;
  entry.comm.struct_size = sizeof(cohort_comm);
  entry.comm.collective = comm->collective;
  const uint64_t number = host_.recorder().begin(comm, {.operation = "split"});
  const cohort_status status = comm->collective->vt->split(comm->collective, comm, color, key, &entry.comm);
  host_.recorder().end(comm, number, status, host_.peers_of(status));
  host_.check(status, "splitting a communicator");
  if (color < 0) return;
  entry.is_connected = true;
  ++parent.num_parts;
  check_flags(entry.comm, "split");
}

void CommunicatorSet::adopt(cohort_comm* comm) {
  const std::lock_guard lock(mutex_);
  by_comm_.at(comm)->place.owner = nullptr;
}

void CommunicatorSet::close(cohort_comm* comm) {
  Entry& entry = entry_of(comm);
  if (entry.num_parts > 0) {
    throw UserError("comm/1.close: " + std::to_string(entry.num_parts) +
                    " communicator(s) were split from this one; close them first");
  }
  const std::lock_guard end(end_);
  Entries closed;
  {
    const std::lock_guard lock(mutex_);
    closed.splice(closed.end(), entries_, by_comm_.at(comm));
    by_comm_.erase(comm);
  }
  close(entry);
}

void CommunicatorSet::close(Entry& entry) {
  if (!entry.is_connected) return;
  cohort_comm* const comm = &entry.comm;
  if (entry.parent) --entry.parent->num_parts;
  if (entry.twin) Collective::of(comm->collective).twins()->remove(comm);
  comm->collective->vt->close(comm->collective, comm);
  host_.recorder().forget(comm);
  for (const auto& [device, other] : entry.others) close(*other);
  if (entry.twin) close(*entry.twin);
}

void CommunicatorSet::abort(cohort_comm* comm) {
  const std::lock_guard end(end_);
  for_all(entry_of(comm), abort_one);
}

void CommunicatorSet::abort() {
  const std::lock_guard end(end_);
  std::vector<Entry*> all;
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) all.push_back(&entry);
  }
  for (Entry* const entry : all) for_all(*entry, abort_one);
}

// The communicator and its twins.
void CommunicatorSet::for_all(Entry& entry, const std::function<void(cohort_comm&)>& visit) {
  visit(entry.comm);
  if (entry.twin) visit(entry.twin->comm);
  for (const auto& [device, other] : entry.others) visit(other->comm);
}

void* CommunicatorSet::alloc(cohort_comm* comm, uint64_t nbytes) {
  cohort_comm& root = entry_of(comm).root->comm;
  if (!root.collective->vt->alloc) return alloc_cpu_memory(nbytes);
  void* memory = nullptr;
  host_.check(root.collective->vt->alloc(root.collective, &root, nbytes, &memory), "allocating memory of ranks");
  return memory;
}

void CommunicatorSet::release(cohort_comm* comm, void* memory) {
  cohort_comm& root = entry_of(comm).root->comm;
  if (!root.collective->vt->alloc) return free_cpu_memory(memory);
  root.collective->vt->release(root.collective, &root, memory);
}

CommPlace CommunicatorSet::place_for(const cohort_host* caller, const cohort_comm* comm, const char* call,
                                     bool must_be_own) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_comm_.find(comm);
  if (found != by_comm_.end()) {
    const CommPlace place = found->second->place;
    if (place.owner == caller || (!must_be_own && !place.owner)) return place;
  }
  const std::string& component = HostObject::component_of(caller);
  throw UserError((component.empty() ? "the runtime" : in_quotes(component)) + " gave " + call +
                  " a communicator that is not its own; it can use those that comm/1 gave to it, until it closes them");
}

CommunicatorSet::Entry& CommunicatorSet::entry_of(const cohort_comm* comm) {
  const std::lock_guard lock(mutex_);
  return *by_comm_.at(comm);
}

// A group that has connected is closed again if the rest fails: the twin of a group, or one that says what it must not.
cohort_comm* CommunicatorSet::make(CommPlace place, const std::function<bool(Entry&)>& connect_it) {
  const auto made = unconnected_.emplace(unconnected_.end());
  made->place = place;
  made->root = &*made;
  try {
    if (connect_it(*made)) return keep(made);
  } catch (...) {
    const std::lock_guard end(end_);
    close(*made);
    throw;
  }
  unconnected_.erase(made);
  return nullptr;
}

cohort_comm* CommunicatorSet::keep(Entries::iterator made) {
  const std::lock_guard lock(mutex_);
  entries_.splice(entries_.end(), unconnected_, made);
  by_comm_.emplace(&made->comm, made);
  return &made->comm;
}

}  // namespace cohort::host
