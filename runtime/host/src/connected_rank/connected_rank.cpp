#include <cohort/host/connected_rank.hpp>

#include <algorithm>
#include <cstring>
#include <set>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/uses.hpp>

#include "base_strategy.hpp"
#include "communicator/op_args.hpp"
#include "given/given_args.hpp"
#include "parts_table.hpp"
#include "rank/rank_state.hpp"
#include "services/services.hpp"

namespace cohort::host {
namespace {

// With several optimizers a backward reaches a part of the parameters: there is no one order of arrival.
bool may_adapt(const RankState& state) {
  return state.is_distributed() && state.training.model->num_phases() == 1;
}

void begin_adaptation(RankState& state) {
  const bool has_use = state.training.engine->wants_gradients() || state.setup.autotune_file;
  if (may_adapt(state) && has_use) state.training.adaptation.emplace(state);
}

// Throws UserError if a layer keeps the call to itself: base has to compare the ranks' models, and gives rank 0's
// weights to all.
void configure_layers(RankState& state) {
  state.training.may_own = state.training.may_make_lanes = true;
  const cohort_status status = state.layers->configure_model();
  state.training.may_make_lanes = false;
  const bool reached_base = !state.training.may_own;
  state.training.may_own = false;
  state.host.check(status, "configure_model");
  if (reached_base) return;
  throw UserError("configure_model: layer '" + state.layers->last_configured() +
                  "' does not call the inherited one, which compares the ranks' models and gives rank 0's weights to "
                  "all; call configure_model of the layer below");
}

/// Drops the state of layers that do not run here, and says so: a run that saves again would mix it with state of its
/// own steps.
void drop_state_of_other_layers(const RankState& state, StrategyState& saved) {
  const std::vector<std::string> layers = state.layers->names();
  std::set<std::string> others;
  const auto is_of_another = [&](const auto& item) {
    const std::string layer = item.first.substr(0, item.first.find('/'));
    const bool is_here = std::ranges::find(layers, layer) != layers.end();
    if (!is_here) others.insert(layer);
    return !is_here;
  };
  std::erase_if(saved.values, is_of_another);
  std::erase_if(saved.buckets, is_of_another);
  if (state.setup.topology.rank != 0) return;
  for (const std::string& layer : others) {
    state.setup.log.warning("The checkpoint holds state of strategy layer " + in_quotes(layer) +
                            ", which does not run here: it is left out, also of checkpoints of this run");
  }
}

// Calls save_state or load_state of the strategy, which may use archive/1.
void with_archive(RankState& state, StrategyState& strategy_state, Archive::Use use) {
  const bool saves = use == Archive::Use::kSave;
  cohort_strategy* const strategy = state.strategy();
  state.training.archive.emplace(Archive{strategy_state, use});
  const cohort_status status = saves ? strategy->vt->save_state(strategy) : strategy->vt->load_state(strategy);
  state.training.archive.reset();
  state.host.check(status, saves ? "save_state" : "load_state");
}

}  // namespace

ConnectedRank::ConnectedRank(RankSetup setup)
    : state_(std::make_unique<RankState>(std::move(setup), find_service, base_strategy())) {}
ConnectedRank::~ConnectedRank() = default;

void ConnectedRank::connect() {
  cohort_dist_args& args = state_->dist_args;
  cohort_strategy* const strategy = state_->strategy();
  state_->host.check(strategy->vt->init_dist_connection(strategy, &args), "init_dist_connection");
  if (args.store && !state_->store.is_adopted()) state_->store.adopt(args.store);
  if (state_->is_distributed() && !state_->comms.world()) {
    throw UserError(
        "the strategy's init_dist_connection bound no communicator; it has to call the inherited one or comm/1.bind");
  }
  if (!state_->comms.world()) {
    state_->limit_waits(args.timeout_ns);
    state_->comms.bind_alone();
    state_->lanes.start(state_->comms);
  }
}

StepEngine& ConnectedRank::configure(ModelPort& model) {
  RankState& state = *state_;
  const auto replicas = static_cast<uint32_t>(state.setup.selection.replicas);
  if (model.num_replicas() != replicas) {
    throw UserError("strategy '" + state.setup.selection.strategy.name + "' runs " + std::to_string(replicas) +
                    " replicas of the model in one process, which the Trainer makes; for a loop of your own choose "
                    "--strategy=ddp");
  }
  if (state.training.model) {
    throw UserError("there is a Session already; destroy it before making another (one model at a time)");
  }
  state.training.model = &model;
  state.training.owners.reset(model.parameters().size(), model.num_phases());
  state.training.lr_factors = {};
  {
    const std::lock_guard lock(state.training.metrics.mutex);
    state.training.metrics.values.clear();
  }
  try {
    state.layers->check_extensions();
    configure_layers(state);
    lay_out(state);
    announce_layout(state, COHORT_LAYOUT_NEW);
  } catch (...) {
    release_model(model);
    throw;
  }
  state.traffic.reset();
  const RankLane& lane = state.lanes.first();
  state.training.engine = std::make_unique<StepEngine>(StepEngine::Parts{
      state.host, state.strategy(), *state.buckets, model, state.accelerator->core_kernels(), lane.thread.get(),
      state.is_distributed() ? lane.comms.world : nullptr, state.comms.control(), state.devices, state.layers.get()});
  begin_adaptation(state);
  if (state.setup.autotune_file && !may_adapt(state)) {
    state.setup.log.info("Autotune: nothing is tried with one rank or with several optimizers");
  }
  return *state.training.engine;
}

// The order of arrival and the sizes that were found are those of other parameters.
void ConnectedRank::trained_parameters_changed() {
  RankState& state = *state_;
  agree_on_model(state);
  state.training.adaptation.reset();
  state.training.layout = {};
  lay_out(state);
  announce_layout(state, COHORT_LAYOUT_AGAIN);
  begin_adaptation(state);
}

void ConnectedRank::between_steps() {
  // Gradients of an optimizer that has not stepped yet would be forgotten.
  const bool is_requested = state_->training.layout.is_requested && !state_->training.engine->is_in_step();
  if (is_requested) {
    lay_out(*state_);
    announce_layout(*state_, COHORT_LAYOUT_AGAIN);
  }
  // Trials end with the layout that they were for: a new one drains all lanes, which ranks reach at different times.
  if (state_->training.adaptation && !state_->training.engine->wants_gradients() &&
      (is_requested || !state_->setup.autotune_file)) {
    state_->training.adaptation.reset();
  }
  if (state_->training.adaptation) state_->training.adaptation->after_step();
}

void ConnectedRank::release_model(ModelPort& model) {
  RankState& state = *state_;
  if (state.training.model != &model) return;
  state.host.check_process();
  if (!state.lanes.are_idle()) state.comms.set().abort();
  state.lanes.each(&Lane::settle);
  state.training.adaptation.reset();
  state.training.engine.reset();
  state.training.layout = {};
  leave_buckets(state);
  state.buckets->end_training();
  state.buckets->leave_lent_memory();
  state.training.model = nullptr;
}

StateKeeper ConnectedRank::state_keeper(uint32_t parameter) const {
  return state_->training.owners.of(parameter);
}

bool ConnectedRank::has_mean_gradient(uint32_t parameter) const {
  return state_keeper(parameter) != StateKeeper::kAnotherRank || !state_->layers->have_partial_gradients();
}

void ConnectedRank::pause(int32_t reason) {
  RankState& state = *state_;
  cohort_strategy* const strategy = state.strategy();
  state.host.check(strategy->vt->pause(strategy, reason), "pause");
  if (!state.is_distributed() || !state.training.model) return;
  if (const auto buffers = state.training.model->buffers(); !buffers.empty()) {
    state.lanes.first().thread->run([&] { host::broadcast(state, buffers); });
  }
  state.training.model->refresh_replicas();
}

StrategyState ConnectedRank::save_state() {
  StrategyState saved;
  saved.buckets = state_->buckets->state();
  saved.steps = state_->training.engine->steps_by_phase();
  saved.world_size = state_->world_size();
  saved.versions = state_->layers->versions();
  with_archive(*state_, saved, Archive::Use::kSave);
  return saved;
}

void ConnectedRank::load_state(StrategyState saved, uint64_t steps) {
  drop_state_of_other_layers(*state_, saved);
  state_->buckets->set_state(std::move(saved.buckets));
  saved.steps.resize(state_->training.engine->steps_by_phase().size(), steps);
  state_->training.engine->resume_after(saved.steps);
  state_->training.model->refresh_replicas();
  with_archive(*state_, saved, Archive::Use::kRestore);
  if (state_->training.layout.is_requested) lay_out(*state_);
  announce_layout(*state_, COHORT_LAYOUT_RESUMED);
}

std::map<std::string, double> ConnectedRank::strategy_metrics() const {
  const std::lock_guard lock(state_->training.metrics.mutex);
  return state_->training.metrics.values;
}

void ConnectedRank::shutdown() {
  RankState& state = *state_;
  cohort_strategy* const strategy = state.strategy();
  state.host.check(strategy->vt->shutdown(strategy), "shutdown");
  state.lanes.each(&Lane::drain);
  barrier();
  state.finished = true;
}

void ConnectedRank::barrier() {
  if (state_->comms.control()) state_->comms.on_control("barrier", run_barrier);
}

void ConnectedRank::all_reduce(std::span<double> values, int32_t reduce) {
  if (!state_->comms.control() || values.empty()) return;
  cohort_op_args args = op_args(COHORT_FLOAT64, values.data(), values.size());
  args.reduce = reduce;
  state_->comms.on_control("reducing metrics", [&](cohort_comm* comm) { return run_all_reduce(comm, args, nullptr); });
}

void ConnectedRank::broadcast(std::span<std::byte> data, int root) {
  if (state_->comms.control() && !data.empty()) state_->comms.broadcast(data.data(), data.size(), root);
}

std::vector<std::string> ConnectedRank::all_gather(std::string_view text) {
  if (!state_->comms.control()) return {std::string(text)};
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
  state_->comms.on_control("gathering texts", [&](cohort_comm* comm) { return run_all_gather(comm, args, nullptr); });
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < world; ++rank) {
    uint64_t size = 0;
    std::memcpy(&size, all.data() + rank * slot, sizeof size);
    texts.emplace_back(all.data() + rank * slot + sizeof size, size);
  }
  return texts;
}

void ConnectedRank::agree(const std::string& topic, std::string_view text, std::string_view problem) {
  if (state_->is_distributed()) state_->agree_on(topic, text, problem);
}

bool ConnectedRank::is_same_on_all_ranks(uint64_t value, const std::string& purpose) {
  return !state_->comms.control() || state_->comms.is_same_on_all_ranks(value, purpose);
}

bool ConnectedRank::ranks_may_differ() const {
  const RankSetup& setup = state_->setup;
  UseQuery query;
  query.use = COHORT_USE_EQUAL_RANKS;
  query.world_size = setup.topology.world_size;
  query.num_nodes = setup.topology.num_nodes;
  query.replicas = setup.selection.replicas;
  return ask_strategy(setup.plugins, setup.selection.strategy, setup.selection.layers, query).is_no();
}

void ConnectedRank::user_all_reduce(cohort_op_args args) {
  args.stream = state_->stream_like(args.stream);
  state_->host.check(run_all_reduce(state_->comms.user(), args, nullptr), "all_reduce");
}

void ConnectedRank::user_all_gather(cohort_op_args args) {
  args.stream = state_->stream_like(args.stream);
  state_->host.check(run_all_gather(state_->comms.user(), args, nullptr), "all_gather");
}

void ConnectedRank::observe(FlightObserver* observer) {
  state_->host.recorder().observe(observer);
}

HostObject& ConnectedRank::host() const {
  return state_->host;
}
RankStore& ConnectedRank::store() const {
  return state_->store;
}

void ConnectedRank::abort() {
  state_->comms.set().abort();
}

uint64_t ConnectedRank::bytes_sent() const {
  return state_->traffic.sent();
}

std::vector<std::pair<std::string, uint64_t>> ConnectedRank::lane_waits() const {
  return state_->lanes.waits();
}

std::string ConnectedRank::collective() const {
  const bool is_connected = state_->comms.world() && state_->is_distributed();
  return is_connected ? Collective::of(state_->comms.world()->collective).name() : "";
}

std::vector<std::string> ConnectedRank::layers() const {
  return state_->layers->names();
}
const Topology& ConnectedRank::topology() const {
  return state_->setup.topology;
}
Log& ConnectedRank::log() const {
  return state_->setup.log;
}

StrategyPlan plan_of(PluginHost& plugins, const StrategySpec& strategy, std::span<const Spec> free_layers,
                     const cohort_job& job, Log& log) {
  HostObject host(log);
  StrategyLayers layers(resolve_layers(plugins, strategy, free_layers), base_strategy(), nullptr, host);
  cohort_plan plan{};
  plan.struct_size = sizeof plan;
  {
    const PluginCall call(log, "strategy '" + strategy.name + "'", "plan");
    host.check(layers.top()->vt->plan(layers.top(), &job, &plan), "strategy '" + strategy.name + "', plan");
  }
  layers.check_extensions();
  const PluginCall call(log, "strategy '" + strategy.name + "'", "get_extension");
  const cohort_parts_1* const parts = parts_table(layers.top());
  if (parts && parts->num_parts == 0) {
    throw UserError("strategy '" + strategy.name + "' plans 0 parts of the model; tell its author");
  }
  return {plan, parts ? parts->num_parts : 0};
}

}  // namespace cohort::host
