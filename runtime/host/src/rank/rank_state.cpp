#include "rank_state.hpp"

#include <cstring>
#include <utility>

#include <cohort/host/machine.hpp>

#include "host_object/guarded.hpp"

namespace cohort::host {
namespace {

constexpr std::chrono::hours kLongestTimeout{24 * 365 * 10};  // deadlines are sums: they must not overflow

void select_device(const RankDevices& devices, Accelerator& accelerator) {
  if (!devices.all().empty()) accelerator.select(devices.all().front().index);
}

// Keeps this thread, and those that it starts, on the cores near the rank's first device.
void stay_near_device(const RankDevices& devices, Accelerator& accelerator, Log& log) {
  if (devices.all().empty()) return;
  const cohort_device_info info = accelerator.device_info(devices.all().front().index);
  const std::string address(info.pci_address, ::strnlen(info.pci_address, sizeof info.pci_address));
  const std::string list = cores_near(address);
  if (const int cores = stay_on_cores(list)) {
    log.debug("threads stay on " + std::to_string(cores) + " of the cores near device " + address + ": " + list);
  }
}

std::unique_ptr<Accelerator> open_accelerator(const RankSetup& setup, HostObject& host, const RankDevices& devices) {
  auto accelerator =
      std::make_unique<Accelerator>(setup.plugins.open(Kind::kAccelerator, setup.selection.accelerator), host);
  accelerator->take_kernels();
  stay_near_device(devices, *accelerator, setup.log);  // before there are threads
  select_device(devices, *accelerator);
  return accelerator;
}

cohort_status connect_by_program(cohort_strategy* s, cohort_dist_args* args) noexcept {
  return guarded(s->host, [&] {
    RankState& state = rank_of(s->host);
    state.setup.init_dist_connection(*args,
                                     [&] { state.host.check(s->below->vt->init_dist_connection(s->below, args), ""); });
    return COHORT_OK;
  });
}

constexpr cohort_strategy_vt kProgramLayer = [] {
  cohort_strategy_vt table{};
  table.struct_size = sizeof table;
  table.init_dist_connection = connect_by_program;
  return table;
}();

std::vector<LayerBlueprint> layers_of(const RankSetup& setup) {
  auto layers = resolve_layers(setup.plugins, setup.selection.strategy, setup.selection.layers);
  if (setup.init_dist_connection) layers.push_back({"program", &kProgramLayer, {}, layers.back().variant});
  return layers;
}

cohort_dist_args dist_args_of(const RankSetup& setup) {
  const Topology& topology = setup.topology;
  cohort_dist_args args{};
  args.struct_size = sizeof args;
  args.rank = topology.rank;
  args.world_size = topology.world_size;
  args.local_rank = topology.local_rank;
  args.local_world_size = topology.local_world_size;
  args.node_rank = topology.node_rank;
  args.num_nodes = topology.num_nodes;
  args.master_port = topology.master_port;
  args.master_addr = topology.master_addr.c_str();
  args.timeout_ns = setup.timeout.count();
  return args;
}

}  // namespace

RankState::RankState(RankSetup given, HostObject::Lookup find_service, const cohort_strategy_vt& base)
    : setup(std::move(given)),
      dist_args(dist_args_of(setup)),
      host(setup.log, std::move(find_service), this),
      devices(setup.device_port),
      accelerator(open_accelerator(setup, host, devices)),
      store(setup),
      comms(setup, host, devices, accelerator->get(), accelerator->device_type()),
      lanes(host, devices, setup.timeout, [this] { select_device(devices, *accelerator); }),
      buckets(std::make_unique<Buckets>(
          devices, [this](Device device, uint64_t nbytes) { return comms.allocate(device, nbytes); },
          [this](uint32_t parameter) { return training.model->gradient_data(0, parameter); }, setup.inspects_layers)),
      lent_memory(devices) {
  // A layer may ask for services as it is made.
  Inspection inspect;
  if (setup.inspects_layers) inspect = [this] { return buckets->damage(); };
  layers = std::make_unique<StrategyLayers>(layers_of(setup), base, this, host, std::move(inspect));
}

RankState::~RankState() {
  host.check_process();
  if (!finished) comms.set().abort();  // so that the lane does not wait for ranks that are gone
  lanes.each(&Lane::stop);             // before what their tasks refer to
  training.engine.reset();
  const bool left_memory = buckets->left_memory();
  buckets.reset();
  layers.reset();
  lent_memory.release_all();
  comms.close(left_memory);
  if (finished) store.leave();
}

void RankState::agree_on(const std::string& topic, std::string_view text, std::string_view problem) {
  const Agreement agreement = store.next_agreement(topic);
  if (!comms.control()) return agree(agreement, topic, text, problem);
  if (!comms.is_same_on_all_ranks(fingerprint(text), "comparing the ranks' " + topic)) {
    throw_difference(agreement, topic, text, problem);
  }
}

void RankState::limit_waits(int64_t timeout_ns) {
  if (timeout_ns <= 0 || std::chrono::nanoseconds(timeout_ns) > kLongestTimeout) {
    throw UserError("init_dist_connection was given a timeout of " + std::to_string(timeout_ns) +
                    " ns; give one above 0, and ten years at most");
  }
  setup.timeout = std::chrono::nanoseconds(timeout_ns);
}

void RankState::bind_world(cohort_comm* comm) {
  comms.bind(comm);
  store.note_meeting();
  lanes.start(comms);
}

void RankState::step_optimizer(uint32_t phase) {
  OptimizerPort& optimizers = training.model->optimizers();
  if (training.owners.is_owned(phase)) return optimizers.step(phase, training.owners.own(phase));
  optimizers.step(phase);
}

}  // namespace cohort::host
