#include "rank.hpp"

#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/option_table.hpp>

#include "suite.hpp"

namespace cohort::conformance {
namespace {

host::LogSettings warnings_alone() {
  host::LogSettings settings;
  settings.level = host::LogLevel::kWarning;
  return settings;
}

cohort_connect_args group_of(cohort_store* store, int rank, int size, std::chrono::nanoseconds timeout) {
  const int per_node = subject().ranks_per_node > 0 ? subject().ranks_per_node : size;
  cohort_connect_args group{};
  group.struct_size = sizeof group;
  group.rank = rank;
  group.size = size;
  group.device_type = COHORT_DEVICE_CPU;
  group.node_rank = rank / per_node;
  group.num_nodes = (size + per_node - 1) / per_node;
  group.timeout_ns = timeout.count();
  group.store = store;
  group.name = "suite";
  return group;
}

// The component without its operations but exchange, and without split, so that the host composes them.
struct Stripped {
  cohort_component component;
  cohort_collective_vt table;
};
Stripped strip(const cohort_component& component) {
  Stripped bare{component, native_table()};
  bare.table.all_reduce = bare.table.reduce = bare.table.broadcast = bare.table.all_gather = nullptr;
  bare.table.reduce_scatter = bare.table.all_to_all = nullptr;
  bare.table.barrier = nullptr;
  bare.table.split = nullptr;
  return bare;
}

}  // namespace

Comm::Comm(host::HostObject& host, std::unique_ptr<cohort_comm> part)
    : host_(&host), part_(std::move(part)), comm_(part_.get()), has_(comm_->data != nullptr) {}

Comm::Comm(Comm&& other) noexcept
    : host_(other.host_), part_(std::move(other.part_)), comm_(other.comm_), has_(std::exchange(other.has_, false)) {}

Comm::~Comm() {
  if (part_ && has_) table().close(comm_->collective, comm_);
}

void Comm::check(cohort_status status) {
  if (status == COHORT_OK) return;
  std::vector<int> peers = host_->peers_of(status);
  std::string message = host_->take_message(status);
  for (const int peer : peers) message += "; it waited for rank " + std::to_string(peer);
  throw test::CallFailed(status, message, std::move(peers));
}

Comm Comm::split(int color, int key) {
  auto part = std::make_unique<cohort_comm>();
  part->struct_size = sizeof(cohort_comm);
  part->collective = comm_->collective;
  check(table().split(comm_->collective, comm_, color, key, part.get()));
  return Comm(*host_, std::move(part));
}

void Comm::abort() {
  table().abort(comm_->collective, comm_);
}

void* Comm::alloc(uint64_t nbytes) {
  void* memory = nullptr;
  check(table().alloc(comm_->collective, comm_, nbytes, &memory));
  return memory;
}

void Comm::release(void* memory) {
  table().release(comm_->collective, comm_, memory);
}

void Comm::call(decltype(cohort_collective_vt::all_reduce) operation, const Op& op) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = op.dtype;
  args.reduce = op.reduce;
  args.root = op.root;
  args.input = op.input;
  args.output = op.output;
  args.count = op.count;
  args.stream.device_type = COHORT_DEVICE_CPU;
  args.counts = op.counts;
  args.recv_counts = op.recv_counts;
  check(operation(comm_->collective, comm_, &args));
}

void Comm::exchange(const std::vector<cohort_message>& messages) {
  cohort_exchange_args args{};
  args.struct_size = sizeof args;
  args.messages = messages.data();
  args.num_messages = messages.size();
  args.stream.device_type = COHORT_DEVICE_CPU;
  check(table().exchange(comm_->collective, comm_, &args));
}

void Comm::barrier() {
  check(table().barrier(comm_->collective, comm_));
}

Rank::Rank(cohort_store* store, int rank, int size, std::chrono::nanoseconds timeout)
    : log_(warnings_alone()),
      host_(log_),
      comms_(subject().plugins, host_, subject().collective, subject().deterministic),
      root_(host_, connect(group_of(store, rank, size, timeout))) {}

Rank::~Rank() {
  if (stripped_comm_) stripped_->get()->vt->close(stripped_->get(), stripped_comm_.get());
}

cohort_comm* Rank::connect(cohort_connect_args group) {
  return subject().composed ? connect_stripped(group) : comms_.open(nullptr, group);
}

// What CommunicatorSet::open does, with another table.
cohort_comm* Rank::connect_stripped(cohort_connect_args group) {
  const Spec& spec = subject().collective;
  const cohort_component& whole = subject().plugins.open(host::Kind::kCollective, spec.name);
  Stripped bare = strip(whole);
  bare.component.vtable = &bare.table;
  const host::CheckedOptions options =
      host::check_options({whole.options, whole.num_options}, spec.options, "collective '" + spec.name + "'");
  stripped_ = std::make_unique<host::Collective>(bare.component, options, host_, comms_.door_for(spec.name),
                                                 subject().deterministic);
  auto comm = std::make_unique<cohort_comm>();
  host_.check(stripped_->connect(group, *comm), "connect");
  stripped_comm_ = std::move(comm);
  return stripped_comm_.get();
}

}  // namespace cohort::conformance
