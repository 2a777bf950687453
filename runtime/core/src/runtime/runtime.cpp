#include <cohort/runtime.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/uses.hpp>
#include <cohort/step_graph.hpp>
#include <cohort/torch_error.hpp>

#include "../device/torch_devices.hpp"
#include "../rendezvous/rank_setup.hpp"
#include "../session/host_step_driver.hpp"
#include "threads.hpp"

namespace cohort {
namespace {

/// Returns the devices of a rank, one for each of its replicas or parts.
std::vector<c10::Device> devices_of(const host::Selection& selection, c10::DeviceType type, int local_rank) {
  const auto count = static_cast<size_t>(selection.replicas) * static_cast<size_t>(std::max(selection.parts, 1));
  if (type == c10::kCPU) return std::vector(count, c10::Device(type));
  std::vector<c10::Device> devices;
  for (size_t i = 0; i < count; ++i) {
    const int id = selection.device_ids.at(static_cast<size_t>(local_rank) * count + i);
    devices.emplace_back(type, static_cast<c10::DeviceIndex>(id));
  }
  return devices;
}

}  // namespace

struct Runtime::State {
  explicit State(const Setup& given)
      : setup(given), topology(given.topology), device_type(open_device_type(given.selection.torch)) {
    host::translate_exceptions_with(throw_torch_error);
    if (setup.options.deterministic) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  Setup setup;
  host::Topology topology;
  c10::DeviceType device_type;
  std::vector<c10::Device> devices;           // by replica
  std::unique_ptr<TorchDevices> device_port;  // null: the CPU alone
  std::unique_ptr<host::Rank> rank;           // null: unconnected
  DriverMaker make_driver;
  int threads = 1;
  bool has_forked = false;

  void take_place();
  void make_rank();
  void choose_threads();
  void choose_devices();
  void log_place();
  void log_connected();
  host::Rank& connected();
  [[noreturn]] void refuse_to_fork(const std::string& reason) const;
};

Runtime::Runtime(Setup setup) : state_(std::make_unique<State>(setup)) {
  state_->make_rank();
}

Runtime::Runtime(Setup setup, std::unique_ptr<host::Rank> rank, DriverMaker make_driver)
    : state_(std::make_unique<State>(setup)) {
  state_->take_place();
  state_->rank = std::move(rank);
  state_->make_driver = std::move(make_driver);
}

Runtime::Runtime(Setup setup, Unconnected) : state_(std::make_unique<State>(setup)) {
  host::Topology& topology = state_->topology;
  topology.world_size = setup.selection.world_size();
  topology.local_world_size = topology.ranks_on_machine = setup.selection.processes_per_node;
  state_->choose_threads();
  state_->choose_devices();
}

Runtime::~Runtime() = default;

bool Runtime::is_connected() const {
  return state_->rank != nullptr;
}

void Runtime::become(const host::Topology& place) {
  const Options& options = state_->setup.options;
  state_->topology = place;
  state_->setup.log.reopen({options.log_level, options.log_format, options.log_dir, place.rank, place.world_size});
  state_->make_rank();
}

void Runtime::connect() {
  state_->connected().connect();
  state_->log_connected();
}

void Runtime::State::take_place() {
  choose_threads();
  at::set_num_threads(threads);
  log_place();
  choose_devices();
}

void Runtime::State::make_rank() {
  take_place();
  auto made = std::make_unique<host::ConnectedRank>(rank_setup(setup, topology, device_port.get()));
  make_driver = [&made = *made](Runtime& runtime, std::span<torch::nn::Module* const> replicas, Optimizers optimizers,
                                UnroundedWeights unrounded) {
    return make_host_step_driver(runtime, made, replicas, std::move(optimizers), std::move(unrounded));
  };
  rank = std::move(made);
}

host::Rank& Runtime::State::connected() {
  if (rank) return *rank;
  refuse_to_fork("sessions and collectives of the program's own need ranks that run all of it, not forks");
}

void Runtime::State::refuse_to_fork(const std::string& reason) const {
  if (!setup.options.strategy && !has_forked) throw RanksNeeded{reason};
  throw UserError("strategy '" + setup.selection.strategy.name + "' is not possible: " + reason +
                  "; choose --strategy=ddp, or start the ranks with cohort run");
}

void Runtime::note_fork() {
  state_->has_forked = true;
}
void Runtime::refuse_to_fork(const std::string& reason) const {
  state_->refuse_to_fork(reason);
}

void Runtime::require_use(int32_t use, int64_t value) const {
  if (use == COHORT_USE_OWN_LOOP) state_->connected();
  const Setup& setup = state_->setup;
  const host::Selection& selection = setup.selection;
  const host::UseQuery query{.use = use,
                             .value = value,
                             .world_size = selection.world_size(),
                             .num_nodes = selection.num_nodes,
                             .local_world_size = selection.processes_per_node,
                             .replicas = selection.replicas};
  if (use == COHORT_USE_GRAPH) {
    host::require_graphs(setup.plugins, selection.strategy, selection.layers, selection.collective, query);
  } else {
    host::require_use(setup.plugins, selection.strategy, selection.layers, query);
  }
}

void Runtime::State::choose_threads() {
  const ThreadChoice choice = cohort::choose_threads(setup.options, topology, host::process_environment());
  threads = choice.threads;
  setup.log.debug("intra-op threads of each rank: " + std::to_string(threads) + " (" + choice.reason + ")");
}

void Runtime::State::choose_devices() {
  devices = devices_of(setup.selection, device_type, topology.local_rank);
  if (device_type == c10::kCPU) return;
  device_port = std::make_unique<TorchDevices>(devices, setup.selection.torch.device_type);
}

void Runtime::State::log_place() {
  setup.log.debug("place in the job:\n" + topology_text(topology));
  if (topology.world_size == 1) return;
  setup.log.every_rank("Initializing distributed: GLOBAL_RANK: " + std::to_string(topology.rank) +
                       ", MEMBER: " + std::to_string(topology.rank + 1) + "/" + std::to_string(topology.world_size));
}

void Runtime::State::log_connected() {
  if (topology.world_size == 1) return;
  const std::string line(100, '-');
  setup.log.info(line);
  setup.log.info("distributed_backend=" + rank->collective());
  setup.log.info("All distributed processes registered. Starting with " + std::to_string(topology.world_size) +
                 " processes");
  setup.log.info(line);
}

const Options& Runtime::options() const {
  return state_->setup.options;
}
const host::Selection& Runtime::selection() const {
  return state_->setup.selection;
}
const host::Topology& Runtime::topology() const {
  return state_->topology;
}
host::Log& Runtime::log() const {
  return state_->setup.log;
}
host::PluginHost& Runtime::plugins() const {
  return state_->setup.plugins;
}
std::span<const c10::Device> Runtime::devices() const {
  return state_->devices;
}
int Runtime::threads() const {
  return state_->threads;
}
std::string Runtime::collective() const {
  return state_->rank ? state_->rank->collective() : "";
}
std::vector<std::string> Runtime::layers() const {
  return state_->rank ? state_->rank->layers() : std::vector<std::string>{};
}

void Runtime::barrier() {
  state_->connected().barrier();
}
void Runtime::all_reduce_sum(std::span<double> values) {
  state_->connected().all_reduce(values, COHORT_REDUCE_SUM);
}
void Runtime::all_reduce_max(std::span<double> values) {
  state_->connected().all_reduce(values, COHORT_REDUCE_MAX);
}
void Runtime::broadcast(std::span<std::byte> data, int root) {
  state_->connected().broadcast(data, root);
}
std::vector<std::string> Runtime::all_gather(std::string_view text) {
  return state_->connected().all_gather(text);
}
void Runtime::agree(const std::string& topic, std::string_view text, std::string_view problem) {
  state_->connected().agree(topic, text, problem);
}
bool Runtime::is_same_on_all_ranks(std::string_view text, const std::string& purpose) {
  return state_->connected().is_same_on_all_ranks(host::fingerprint(text), purpose);
}
uint64_t Runtime::bytes_sent() const {
  return state_->connected().bytes_sent();
}
void Runtime::observe(host::FlightObserver* observer) {
  state_->connected().observe(observer);
}
void Runtime::shutdown() {
  state_->connected().shutdown();
}
std::unique_ptr<StepDriver> Runtime::make_driver(std::span<torch::nn::Module* const> replicas, Optimizers optimizers,
                                                 UnroundedWeights unrounded) {
  state_->connected();
  return state_->make_driver(*this, replicas, std::move(optimizers), std::move(unrounded));
}
std::unique_ptr<StepGraph> Runtime::make_graph() const {
  return std::make_unique<StepGraph>(state_->setup.selection.torch, device());
}
host::ConnectedRank& Runtime::connected_rank() {
  return dynamic_cast<host::ConnectedRank&>(state_->connected());
}

}  // namespace cohort
