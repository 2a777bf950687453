#include <cohort/runtime.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cohort/host/error.hpp>
#include <cohort/host/rank_runtime.hpp>

#include "../rendezvous/rendezvous.hpp"
#include "threads.hpp"

namespace cohort {
namespace {

constexpr std::chrono::seconds kConnectTimeout{60};

host::RankSetup rank_setup(const Runtime::Setup& setup) {
  const auto connect_timeout = std::min<std::chrono::nanoseconds>(setup.options.timeout, kConnectTimeout);
  return {.plugins = setup.plugins,
          .selection = setup.selection,
          .topology = setup.topology,
          .log = setup.log,
          .timeout = setup.options.timeout,
          .connect_timeout = connect_timeout,
          .bucket_size = setup.options.bucket_size,
          .deterministic = setup.options.deterministic,
          .open_store = [topology = setup.topology, connect_timeout](const cohort_dist_args& args) {
            host::Topology place = topology;  // with what layers have changed
            place.master_addr = args.master_addr ? args.master_addr : "";
            place.master_port = args.master_port;
            return open_store(place, connect_timeout);
          }};
}

}  // namespace

struct Runtime::State {
  explicit State(const Setup& given) : setup(given), rank(rank_setup(given)) {}
  Setup setup;
  host::RankRuntime rank;
  int threads = 1;

  void choose_threads();
  void log_place();
  void log_connected();
};

Runtime::Runtime(Setup setup) : state_(std::make_unique<State>(setup)) {
  state_->choose_threads();
  if (setup.options.deterministic) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  state_->log_place();
  state_->rank.connect();
  state_->log_connected();
}

Runtime::~Runtime() = default;

void Runtime::State::choose_threads() {
  const ThreadChoice choice = cohort::choose_threads(setup.options, setup.topology, host::process_environment());
  threads = choice.threads;
  at::set_num_threads(threads);
  setup.log.debug("intra-op threads of each rank: " + std::to_string(threads) + " (" + choice.reason + ")");
}

void Runtime::State::log_place() {
  const host::Topology& topology = setup.topology;
  setup.log.debug("place in the job:\n" + topology_text(topology));
  if (topology.world_size == 1) return;
  setup.log.every_rank("Initializing distributed: GLOBAL_RANK: " + std::to_string(topology.rank) +
                       ", MEMBER: " + std::to_string(topology.rank + 1) + "/" + std::to_string(topology.world_size));
}

void Runtime::State::log_connected() {
  if (setup.topology.world_size == 1) return;
  const std::string line(100, '-');
  setup.log.info(line);
  setup.log.info("distributed_backend=" + rank.collective_name());
  setup.log.info("All distributed processes registered. Starting with " + std::to_string(setup.topology.world_size) +
                 " processes");
  setup.log.info(line);
}

int Runtime::rank() const {
  return state_->setup.topology.rank;
}
int Runtime::world_size() const {
  return state_->setup.topology.world_size;
}
int Runtime::local_rank() const {
  return state_->setup.topology.local_rank;
}
int Runtime::local_world_size() const {
  return state_->setup.topology.local_world_size;
}
int Runtime::node_rank() const {
  return state_->setup.topology.node_rank;
}
int Runtime::num_nodes() const {
  return state_->setup.topology.num_nodes;
}
const Options& Runtime::options() const {
  return state_->setup.options;
}
const host::Selection& Runtime::selection() const {
  return state_->setup.selection;
}
const host::Topology& Runtime::topology() const {
  return state_->setup.topology;
}
host::Log& Runtime::log() const {
  return state_->setup.log;
}
c10::Device Runtime::device() const {
  return c10::Device(c10::kCPU);
}
int Runtime::threads() const {
  return state_->threads;
}
std::string Runtime::collective() const {
  return state_->rank.collective_name();
}
std::vector<std::string> Runtime::layers() const {
  return state_->rank.layer_names();
}

void Runtime::barrier() {
  state_->rank.barrier();
}
void Runtime::all_reduce_sum(std::span<double> values) {
  state_->rank.all_reduce(values, COHORT_REDUCE_SUM);
}
void Runtime::all_reduce_max(std::span<double> values) {
  state_->rank.all_reduce(values, COHORT_REDUCE_MAX);
}
void Runtime::broadcast(std::span<std::byte> data, int root) {
  state_->rank.broadcast(data, root);
}
std::vector<std::string> Runtime::all_gather(std::string_view text) {
  return state_->rank.all_gather(text);
}
void Runtime::agree(const std::string& topic, std::string_view text, std::string_view problem) {
  state_->rank.agree(topic, text, problem);
}
uint64_t Runtime::bytes_sent() const {
  return state_->rank.bytes_sent();
}
void Runtime::shutdown() {
  state_->rank.shutdown();
}
host::RankRuntime& Runtime::rank_runtime() {
  return state_->rank;
}

}  // namespace cohort
