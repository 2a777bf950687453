#include <cohort/host/rank_runtime.hpp>

#include <algorithm>
#include <cstring>

#include <cohort/api/ranks_differ.h>
#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>

#include "communicator/op_args.hpp"
#include "given/given_args.hpp"
#include "rank_state.hpp"

namespace cohort::host {
namespace {

// Made at the first use.
cohort_comm* user_comm(RankState& state) {
  if (!state.user) {
    state.user = state.comms->split(state.root, 0, state.rank());
    state.host.recorder().name(state.user, "user");
  }
  return state.user;
}

// With several optimizers a backward reaches a part of the parameters: there is no one order of arrival.
bool may_adapt(const RankState& state) {
  return state.is_distributed() && state.model->num_phases() == 1;
}

void begin_adaptation(RankState& state) {
  const bool has_use = state.engine->wants_gradients() || state.setup.autotune_file;
  if (may_adapt(state) && has_use) state.adaptation.emplace(state);
}

}  // namespace

RankRuntime::RankRuntime(RankSetup setup) : state_(std::make_unique<RankState>(std::move(setup))) {}
RankRuntime::~RankRuntime() = default;

void RankRuntime::connect() {
  const Topology& topology = state_->setup.topology;
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
  args.timeout_ns = state_->setup.timeout.count();
  cohort_strategy* const strategy = state_->strategy();
  state_->host.check(strategy->vt->init_dist_connection(strategy, &args), "init_dist_connection");
  if (args.store && !state_->store) state_->adopt_store(args.store);
  if (state_->is_distributed() && !state_->root) {
    throw UserError(
        "the strategy's init_dist_connection bound no communicator; it has to call the inherited one or comm/1.bind");
  }
  if (!state_->root) state_->bind_alone();
}

StepEngine& RankRuntime::configure(ModelPort& model) {
  RankState& state = *state_;
  const auto replicas = static_cast<uint32_t>(state.setup.selection.replicas);
  if (model.num_replicas() != replicas) {
    throw UserError("strategy '" + state.setup.selection.strategy.name + "' runs " + std::to_string(replicas) +
                    " replicas of the model in one process, which the Trainer makes; for a loop of your own choose "
                    "--strategy=ddp");
  }
  if (state.model) {
    throw UserError("there is a Session already; destroy it before making another (one model at a time)");
  }
  state.model = &model;
  state.owners.reset(model.parameters().size(), model.num_phases());
  {
    const std::lock_guard lock(state.metrics.mutex);
    state.metrics.values.clear();
  }
  try {
    cohort_strategy* const strategy = state.strategy();
    state.may_own = true;
    const cohort_status status = strategy->vt->configure_model(strategy);
    state.may_own = false;
    state.host.check(status, "configure_model");
    lay_out(state);
    announce_layout(state, COHORT_LAYOUT_NEW);
  } catch (...) {
    release_model(model);
    throw;
  }
  state.traffic.reset();
  const RankLane& lane = state.default_lane();
  state.engine = std::make_unique<StepEngine>(StepEngine::Parts{
      state.host, state.strategy(), *state.buckets, model, state.accelerator->core_kernels(), lane.thread.get(),
      state.is_distributed() ? lane.comms.world : nullptr, state.control, state.devices});
  begin_adaptation(state);
  if (state.setup.autotune_file && !may_adapt(state)) {
    state.setup.log.info("Autotune: nothing is tried with one rank or with several optimizers");
  }
  return *state.engine;
}

// The order of arrival and the sizes that were found are those of other parameters.
void RankRuntime::trained_parameters_changed() {
  RankState& state = *state_;
  agree_on_model(state);
  state.adaptation.reset();
  state.layout = {};
  lay_out(state);
  announce_layout(state, COHORT_LAYOUT_AGAIN);
  begin_adaptation(state);
}

void RankRuntime::between_steps() {
  const bool is_requested = state_->layout.is_requested;
  if (is_requested) {
    lay_out(*state_);
    announce_layout(*state_, COHORT_LAYOUT_AGAIN);
  }
  // Trials end with the layout that they were for: a new one drains all lanes, which ranks reach at different times.
  if (state_->adaptation && !state_->engine->wants_gradients() && (is_requested || !state_->setup.autotune_file)) {
    state_->adaptation.reset();
  }
  if (state_->adaptation) state_->adaptation->after_step();
}

void RankRuntime::release_model(ModelPort& model) {
  RankState& state = *state_;
  if (state.model != &model) return;
  state.host.check_process();
  const auto is_busy = [](const auto& lane) { return lane->thread && !lane->thread->is_idle(); };
  if (std::ranges::any_of(state.lanes, is_busy)) state.comms->abort();
  for (const auto& lane : state.lanes) {
    if (lane->thread) lane->thread->settle();
  }
  state.adaptation.reset();
  state.engine.reset();
  state.layout = {};
  leave_buckets(state);
  state.buckets->end_training();
  state.buckets->leave_lent_memory();
  state.model = nullptr;
}

StateKeeper RankRuntime::state_keeper(uint32_t parameter) const {
  return state_->owners.of(parameter);
}

bool RankRuntime::has_mean_gradient(uint32_t parameter) const {
  return state_keeper(parameter) != StateKeeper::kAnotherRank || !state_->layers->have_partial_gradients();
}

void RankRuntime::pause(int32_t reason) {
  RankState& state = *state_;
  cohort_strategy* const strategy = state.strategy();
  state.host.check(strategy->vt->pause(strategy, reason), "pause");
  if (!state.is_distributed() || !state.model) return;
  if (const auto buffers = state.model->buffers(); !buffers.empty()) {
    state.default_lane().thread->run([&] { host::broadcast(state, buffers); });
  }
  state.model->refresh_replicas();
}

StrategyState RankRuntime::save_state() {
  StrategyState saved;
  saved.buckets = state_->buckets->state();
  saved.steps = state_->engine->steps_by_phase();
  saved.world_size = state_->world_size();
  saved.versions = state_->layers->versions();
  state_->with_archive(saved, Archive::Use::kSave);
  return saved;
}

void RankRuntime::load_state(StrategyState saved, uint64_t steps) {
  state_->buckets->set_state(std::move(saved.buckets));
  saved.steps.resize(state_->engine->steps_by_phase().size(), steps);
  state_->engine->resume_after(saved.steps);
  state_->model->refresh_replicas();
  state_->with_archive(saved, Archive::Use::kRestore);
  if (state_->layout.is_requested) lay_out(*state_);
  announce_layout(*state_, COHORT_LAYOUT_RESUMED);
}

std::map<std::string, double> RankRuntime::strategy_metrics() const {
  const std::lock_guard lock(state_->metrics.mutex);
  return state_->metrics.values;
}

void RankRuntime::shutdown() {
  RankState& state = *state_;
  cohort_strategy* const strategy = state.strategy();
  state.host.check(strategy->vt->shutdown(strategy), "shutdown");
  for (const auto& lane : state.lanes) {
    if (lane->thread) lane->thread->drain();
  }
  barrier();
  state.finished = true;
}

void RankRuntime::barrier() {
  if (state_->control) state_->on_control("barrier", run_barrier);
}

void RankRuntime::all_reduce(std::span<double> values, int32_t reduce) {
  if (!state_->control || values.empty()) return;
  cohort_op_args args = op_args(COHORT_FLOAT64, values.data(), values.size());
  args.reduce = reduce;
  state_->on_control("reducing metrics", [&](cohort_comm* comm) { return run_all_reduce(comm, args, nullptr); });
}

void RankRuntime::broadcast(std::span<std::byte> data, int root) {
  if (state_->control && !data.empty()) state_->broadcast(data.data(), data.size(), root);
}

std::vector<std::string> RankRuntime::all_gather(std::string_view text) {
  if (!state_->control) return {std::string(text)};
  const auto world = static_cast<size_t>(state_->world_size());
  double longest = static_cast<double>(text.size());
  all_reduce({&longest, 1}, COHORT_REDUCE_MAX);
  // Every rank sends the same number of bytes: its length, then the text, padded.
  const size_t slot = sizeof(uint64_t) + static_cast<size_t>(longest);
  std::vector<char> own(slot, '\0'), all(slot * world);
  const uint64_t length = text.size();
  std::memcpy(own.data(), &length, sizeof length);
  std::copy(text.begin(), text.end(), own.begin() + sizeof length);
  cohort_op_args args = op_args(COHORT_UINT8, all.data(), slot);
  args.input = own.data();
  state_->on_control("gathering texts", [&](cohort_comm* comm) { return run_all_gather(comm, args, nullptr); });
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < world; ++rank) {
    uint64_t size = 0;
    std::memcpy(&size, all.data() + rank * slot, sizeof size);
    texts.emplace_back(all.data() + rank * slot + sizeof size, size);
  }
  return texts;
}

void RankRuntime::agree(const std::string& topic, std::string_view text, std::string_view problem) {
  if (state_->is_distributed()) state_->agree_on(topic, text, problem);
}

bool RankRuntime::is_same_on_all_ranks(uint64_t value, const std::string& purpose) {
  return !state_->control || state_->is_same_on_all_ranks(value, purpose);
}

bool RankRuntime::ranks_may_differ() const {
  cohort_strategy* const strategy = state_->strategy();
  return strategy->vt->get_extension(strategy, COHORT_RANKS_DIFFER_ID) != nullptr;
}

void RankRuntime::user_all_reduce(cohort_op_args args) {
  args.stream = state_->stream_like(args.stream);
  state_->host.check(run_all_reduce(user_comm(*state_), args, nullptr), "all_reduce");
}

void RankRuntime::user_all_gather(cohort_op_args args) {
  args.stream = state_->stream_like(args.stream);
  state_->host.check(run_all_gather(user_comm(*state_), args, nullptr), "all_gather");
}

std::vector<FlightRecorder::Flight> RankRuntime::flights() const {
  return state_->host.recorder().flights();
}

FlightRecorder::Standing RankRuntime::standing() const {
  return state_->host.recorder().standing();
}

void RankRuntime::observe(FlightObserver* observer) {
  state_->host.recorder().observe(observer);
}

void RankRuntime::check_process() const {
  state_->host.check_process();
}

void RankRuntime::abort() {
  state_->comms->abort();
}

void RankRuntime::when_met(std::function<void()> call) {
  state_->when_met = std::move(call);
}

Store* RankRuntime::job_store() {
  return state_->has_met || state_->control ? state_->job_store.get() : nullptr;
}

void RankRuntime::limit_store_calls(std::chrono::milliseconds longest) {
  if (state_->own_store) state_->own_store->limit_calls(longest);
}

void RankRuntime::give_up_store() {
  if (state_->own_store) state_->own_store->give_up();
}

uint64_t RankRuntime::bytes_sent() const {
  return state_->traffic.sent();
}

std::vector<std::pair<std::string, uint64_t>> RankRuntime::lane_waits() const {
  std::vector<std::pair<std::string, uint64_t>> waits;
  for (const auto& lane : state_->lanes) waits.emplace_back(lane->name, lane->thread ? lane->thread->waits() : 0);
  return waits;
}

std::string RankRuntime::collective_name() const {
  const bool is_connected = state_->root && state_->is_distributed();
  return is_connected ? Collective::of(state_->root->collective).name() : "";
}

std::vector<std::string> RankRuntime::layer_names() const {
  return state_->layers->names();
}
const Topology& RankRuntime::topology() const {
  return state_->setup.topology;
}
Log& RankRuntime::log() const {
  return state_->setup.log;
}

cohort_plan plan_of(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> free_layers,
                    const cohort_job& job, Log& log) {
  HostObject host(log);
  StrategyLayers layers(resolve_layers(plugins, strategy, free_layers), base_strategy(), nullptr, host);
  cohort_plan plan{};
  plan.struct_size = sizeof plan;
  const PluginCall call(log, "strategy '" + strategy.name + "'", "plan");
  host.check(layers.top()->vt->plan(layers.top(), &job, &plan), "strategy '" + strategy.name + "', plan");
  return plan;
}

}  // namespace cohort::host
