// The bottom layer of every strategy: what a slot does that no plugin fills.
//
// It behaves like data-parallel training: one process per device, rank 0's weights for all, gradients averaged bucket
// by bucket. With one rank it communicates nothing. Its data is the RankState.
#include "base_strategy.hpp"

#include <sstream>

#include <cohort/host/error.hpp>

#include "communicator/op_args.hpp"
#include "given/given_args.hpp"
#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"

namespace cohort::host {
namespace {

RankState& state_of(cohort_strategy* s) {
  return *static_cast<RankState*>(s->data);
}

cohort_status plan(cohort_strategy*, const cohort_job* job, cohort_plan* plan) noexcept {
  plan->processes_per_node = job->num_devices;
  plan->replicas_per_process = 1;
  const bool alone = job->external_world_size > 0 || job->num_devices * job->num_nodes == 1;
  plan->launch = alone ? COHORT_LAUNCH_NONE : COHORT_LAUNCH_EXEC;
  plan->collectives = "";
  return COHORT_OK;
}

// Plugins and the options that ranks follow together have to be the same on every rank, or the ranks' messages would
// not match.
std::string plugins_text(const RankState& state) {
  const Selection& selection = state.setup.selection;
  std::ostringstream text;
  text << "strategy " << to_string(selection.strategy) << '\n';
  for (const Spec& layer : selection.layers) text << "layer " << to_string(layer) << '\n';
  text << "collective " << to_string(selection.collective) << (state.setup.deterministic ? " deterministic\n" : "\n");
  if (state.setup.bucket_size) text << "bucket-size " << *state.setup.bucket_size << '\n';
  for (const LoadedPlugin& plugin : state.setup.plugins.loaded()) {
    text << "plugin " << plugin.file.filename().string() << ' ' << plugin.descriptor->version << " (contents "
         << plugin.content_hash << ")\n";
  }
  return text.str() + state.setup.options_text;
}

cohort_status init_dist_connection(cohort_strategy* s, cohort_dist_args* args) noexcept {
  return guarded(s->host, [&] {
    RankState& state = state_of(s);
    if (args->world_size == 1) return COHORT_OK;
    state.limit_waits(args->timeout_ns);
    state.store.use(*args);
    state.store.meet(
        "plugins", plugins_text(state),
        "ranks run with different plugins or options; install the same files and give the same flags on every "
        "node");
    state.bind_world(state.comms.connect(*args));
    return COHORT_OK;
  });
}

cohort_status configure_model(cohort_strategy* s) noexcept {
  return guarded(s->host, [&] {
    RankState& state = state_of(s);
    state.training.may_own = false;
    agree_on_model(state);
    if (!state.is_distributed()) return COHORT_OK;
    state.lanes.first().thread->run([&] {
      broadcast(state, state.training.model->parameters());
      broadcast(state, state.training.model->buffers());
    });
    share_optimizer_state(state);
    return COHORT_OK;
  });
}

cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan*) noexcept {
  return guarded(s->host, [&] {
    RankState& state = state_of(s);
    if (state.is_distributed() || state.setup.selection.replicas > 1) state.layers->want_gradients(s->host);
    return COHORT_OK;
  });
}

cohort_status reduce_bucket(cohort_strategy* s, const cohort_step*, const cohort_bucket* bucket) noexcept {
  return guarded(s->host, [&] {
    RankState& state = state_of(s);
    if (!state.is_distributed()) return COHORT_OK;
    void* const gradients = state.buckets->data(bucket->index, COHORT_BUCKET_GRAD);
    const cohort_stream stream = state.devices.current({bucket->device_type, bucket->device_index});
    cohort_op_args args = op_args(bucket->dtype, gradients, bucket->numel, stream);
    args.reduce = COHORT_REDUCE_MEAN;
    return run_all_reduce(state.lanes.first().comms.world, args, &state.traffic);
  });
}

cohort_status clip_gradients(cohort_strategy* s, const cohort_step* step, const cohort_clip_args* args) noexcept {
  return guarded(s->host, [&] {
    state_of(s).training.model->clip_gradients(step->phase, given(*args));
    return COHORT_OK;
  });
}

cohort_status optimizer_step(cohort_strategy* s, const cohort_step* step) noexcept {
  return guarded(s->host, [&] {
    state_of(s).step_optimizer(step->phase);
    return COHORT_OK;
  });
}

cohort_status create(cohort_strategy*, const char*, const cohort_key_value*, uint64_t) noexcept {
  return COHORT_OK;
}
void destroy(cohort_strategy*) noexcept {}
cohort_status nothing_for_step(cohort_strategy*, const cohort_step*) noexcept {
  return COHORT_OK;
}
cohort_status nothing_for_reason(cohort_strategy*, int32_t) noexcept {
  return COHORT_OK;
}
cohort_status nothing(cohort_strategy*) noexcept {
  return COHORT_OK;
}
const void* no_extension(cohort_strategy*, const char*) noexcept {
  return nullptr;
}

constexpr cohort_strategy_vt kBase{
    .struct_size = sizeof(cohort_strategy_vt),
    .flags = 0,
    .create = create,
    .destroy = destroy,
    .plan = plan,
    .init_dist_connection = init_dist_connection,
    .configure_model = configure_model,
    .plan_buckets = plan_buckets,
    .layout_ready = nothing_for_reason,
    .begin_step = nothing_for_step,
    .reduce_bucket = reduce_bucket,
    .end_backward = nothing_for_step,
    .clip_gradients = clip_gradients,
    .optimizer_step = optimizer_step,
    .end_step = nothing_for_step,
    .pause = nothing_for_reason,
    .save_state = nothing,
    .load_state = nothing,
    .shutdown = nothing,
    .get_extension = no_extension,
};

}  // namespace

const cohort_strategy_vt& base_strategy() {
  return kBase;
}

}  // namespace cohort::host
