#include "rank.hpp"

#include <array>
#include <numeric>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/sdk/dtype.hpp>

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
  static constexpr std::array<uint8_t, 32> kKey{1, 2, 3};  // if it is not the host that gives one
  group.key = kKey.data();
  group.key_nbytes = static_cast<uint32_t>(kKey.size());
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

// Elements that an operation reads and may write, as cohort/api/collective.h says.
struct Extent {
  uint64_t input, output;
};

Extent extent_of(decltype(&cohort_collective_vt::all_reduce) slot, const cohort_op_args& args, int rank, int size) {
  using Table = cohort_collective_vt;
  const auto total = [&](const uint64_t* counts) {
    return counts ? std::accumulate(counts, counts + size, uint64_t{0}) : args.count * static_cast<uint64_t>(size);
  };
  const uint64_t own = args.counts ? args.counts[rank] : args.count;
  if (slot == &Table::all_gather) return {own, total(args.counts)};
  if (slot == &Table::reduce_scatter) return {total(args.counts), own};
  if (slot == &Table::all_to_all) return {total(args.counts), total(args.recv_counts ? args.recv_counts : args.counts)};
  return {args.count, args.count};
}

constexpr const char* kTwins = "shm";  // what moves host memory beside a collective of device memory
constexpr uint64_t kMostBytesOnDevice = uint64_t{1} << 30;  // more are no test of data

}  // namespace

Comm::Comm(host::HostObject& host, cohort_comm* comm, DeviceRank* on)
    : host_(&host), on_(on), comm_(comm), has_(comm != nullptr) {
  if (on_ && has_) stream_ = on_->device->make_stream();
}

Comm::Comm(host::HostObject& host, std::unique_ptr<cohort_comm> part)
    : host_(&host), on_(nullptr), part_(std::move(part)), comm_(part_.get()), has_(comm_->data != nullptr) {}

Comm::Comm(Comm&& other) noexcept
    : host_(other.host_),
      on_(other.on_),
      stream_(other.stream_),
      part_(std::move(other.part_)),
      comm_(other.comm_),
      has_(std::exchange(other.has_, false)),
      is_part_on_device_(other.is_part_on_device_) {}

Comm::~Comm() {
  if (!has_) return;
  if (part_) table().close(comm_->collective, comm_);
  if (!on_) return;
  if (is_part_on_device_) on_->comms->close(comm_);
  on_->device->destroy_stream(stream_);
}

void Comm::check(cohort_status status) {
  if (status == COHORT_OK) return;
  std::vector<int> peers = host_->peers_of(status);
  std::string message = host_->take_message(status);
  for (const int peer : peers) message += "; it waited for rank " + std::to_string(peer);
  throw test::CallFailed(status, message, std::move(peers));
}

Comm Comm::split(int color, int key) {
  if (on_) return split_on_device(color, key);
  auto part = std::make_unique<cohort_comm>();
  part->struct_size = sizeof(cohort_comm);
  part->collective = comm_->collective;
  check(table().split(comm_->collective, comm_, color, key, part.get()));
  return Comm(*host_, std::move(part));
}

// Through the set, which splits the twin in host memory as well.
Comm Comm::split_on_device(int color, int key) {
  Comm part(*host_, on_->comms->split(comm_, color, key), on_);
  part.is_part_on_device_ = part.has_;
  return part;
}

void Comm::abort() {
  if (on_) return on_->comms->abort(comm_);
  table().abort(comm_->collective, comm_);
}

void* Comm::alloc(uint64_t nbytes) {
  void* memory = nullptr;
  check(table().alloc(comm_->collective, comm_, nbytes, &memory));
  return on_ ? on_->memories.add(*on_->device, memory, nbytes) : memory;
}

void Comm::release(void* memory) {
  table().release(comm_->collective, comm_, on_ ? on_->memories.remove(memory) : memory);
}

void Comm::call(Slot slot, const Op& op) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = op.dtype;
  args.reduce = op.reduce;
  args.root = op.root;
  args.input = op.input;
  args.output = op.output;
  args.count = op.count;
  args.stream = stream_;
  args.counts = op.counts;
  args.recv_counts = op.recv_counts;
  if (on_) return run_on_device(slot, args);
  check((table().*slot)(comm_->collective, comm_, &args));
}

void Comm::run_on_device(Slot slot, cohort_op_args args) {
  OnDevice memory(*on_->device, on_->memories, stream_);
  const uint64_t element = sdk::size_of(args.dtype);
  const auto [input, output] = extent_of(slot, args, rank(), size());
  const bool is_data = args.count < kMostBytesOnDevice && element > 0;
  if (is_data) memory.take(args.input, input * element, args.output, output * element);
  check((table().*slot)(comm_->collective, comm_, &args));
  finish();
  memory.give_back();
}

void Comm::finish() {
  on_->device->wait(stream_);
  check(table().async_error(comm_->collective, comm_));
}

void Comm::exchange(const std::vector<cohort_message>& messages) {
  if (on_) return exchange_on_device(messages);
  cohort_exchange_args args{};
  args.struct_size = sizeof args;
  args.messages = messages.data();
  args.num_messages = messages.size();
  args.stream = stream_;
  check(table().exchange(comm_->collective, comm_, &args));
}

void Comm::exchange_on_device(std::vector<cohort_message> messages) {
  OnDevice memory(*on_->device, on_->memories, stream_);
  for (cohort_message& message : messages) {
    const void* none = nullptr;
    if (message.nbytes < kMostBytesOnDevice) memory.take(none, 0, message.data, message.nbytes);
  }
  const cohort_exchange_args args{sizeof args, 0, messages.data(), messages.size(), stream_};
  check(table().exchange(comm_->collective, comm_, &args));
  finish();
  memory.give_back();
}

void Comm::barrier() {
  check(table().barrier(comm_->collective, comm_));
}

DeviceRank::DeviceRank(host::HostObject& host, int rank) : device(make_device(rank)) {
  if (!device) return;
  const cohort_component& component = subject().plugins.open(host::Kind::kAccelerator, kDeviceAccelerator);
  accelerator = std::make_unique<host::Accelerator>(component, host);
  accelerator->take_kernels();
}

Rank::Rank(cohort_store* store, int rank, int size, std::chrono::nanoseconds timeout)
    : log_(warnings_alone()),
      host_(log_),
      on_(host_, rank),
      comms_(subject().plugins, host_, {subject().collective, subject().deterministic, kTwins},
             on_.accelerator ? on_.accelerator->get() : nullptr),
      root_(host_, connect(group_of(store, rank, size, timeout)), device_rank()) {
  on_.comms = &comms_;
}

Rank::~Rank() {
  if (stripped_comm_) stripped_->get()->vt->close(stripped_->get(), stripped_comm_.get());
}

cohort_comm* Rank::connect(cohort_connect_args group) {
  if (on_.device) {
    group.device_type = on_.device->type();
    group.device_index = on_.device->index();
  }
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
  stripped_ = std::make_unique<host::Collective>(
      bare.component, options, host_, host::Collective::Use{comms_.door_for(spec.name), subject().deterministic});
  auto comm = std::make_unique<cohort_comm>();
  host_.check(stripped_->connect(group, *comm), "connect");
  stripped_comm_ = std::move(comm);
  return stripped_comm_.get();
}

}  // namespace cohort::conformance
