#include "layout_choice.hpp"

#include <algorithm>
#include <sstream>

#include <cohort/host/error.hpp>
#include <cohort/host/uses.hpp>
#include <cohort/sdk/dtype.hpp>

#include "rank_state.hpp"

namespace cohort::host {
namespace {

constexpr uint64_t kBucketBytes = 25ull << 20;
constexpr uint64_t kFirstBucketBytes = 1ull << 20;  // small: communication begins early in backward
constexpr uint64_t kWorthNoCopyBytes = 1 << 20;     // smaller gradients are in the cache when they are copied

LayoutParameter layout_parameter(const RankState& state, const cohort_tensor& parameter) {
  const uint64_t element = sdk::size_of(parameter.dtype);
  if (element == 0) {
    throw UserError("parameter '" + std::string(parameter.name) +
                    "' has a type whose gradients cannot be averaged over ranks; convert it to a real floating type");
  }
  return {parameter.id,
          parameter.name,
          parameter.nbytes / element,
          parameter.dtype,
          state.training.model->phase_of(parameter.id),
          {parameter.device_type, parameter.device_index}};
}

// Throws UserError if the strategy wants the whole model in one bucket and --bucket-size allows less; after the first
// layout that is a warning.
void check_one_bucket(const RankState& state) {
  const auto limit = state.setup.bucket_size;
  if (!limit || !(state.training.layout.plan.flags & COHORT_PLAN_ONE_BUCKET)) return;
  for (const BucketPlan& bucket : planned_buckets(state, state.training.layout)) {
    if (bucket.nbytes <= *limit) continue;
    const std::string text = "strategy '" + to_string(state.setup.selection.strategy) +
                             "' keeps the whole model in one bucket, of " + std::to_string(bucket.nbytes) +
                             " bytes, and --bucket-size=" + std::to_string(*limit) +
                             " cannot hold it; leave the flag out";
    if (!state.training.engine) throw UserError(text);
    state.setup.log.warning(text);
  }
}

void plan_layout(RankState& state) {
  LayoutChoice& layout = state.training.layout;
  layout.is_requested = false;
  layout.plan = {sizeof layout.plan, 0, 0, 0, 1};
  layout.is_planning = true;
  const cohort_status status = state.layers->plan_buckets(layout.plan);
  layout.is_planning = false;
  state.host.check(status, "plan_buckets");
  if (state.layers->want_gradients()) state.buckets->want({COHORT_BUCKET_GRAD});
  constexpr uint32_t kKnown = COHORT_PLAN_ONE_BUCKET | COHORT_PLAN_KEEP_ORDER | COHORT_PLAN_KEEP_SIZE;
  if (layout.plan.flags & ~kKnown) {
    throw UserError("plan_buckets: strategy '" + to_string(state.setup.selection.strategy) +
                    "' sets flags of a layout that this runtime does not know; use an older version of its plugin, or "
                    "a newer runtime");
  }
  check_one_bucket(state);
}

// Returns the devices of parameters, in the order of the first parameter on each.
std::vector<Device> devices_of(std::span<const LayoutParameter> order) {
  std::vector<Device> devices;
  for (const LayoutParameter& parameter : order) {
    if (std::ranges::find(devices, parameter.device) == devices.end()) devices.push_back(parameter.device);
  }
  return devices;
}

// Throws UserError on all ranks if their layers plan different layouts.
void agree_on_plan(RankState& state) {
  if (!state.is_distributed()) return;
  const cohort_bucket_plan& plan = state.training.layout.plan;
  std::ostringstream text;
  text << "flags " << plan.flags << "\nsize " << plan.size << "\nfirst size " << plan.first_size << "\nalignment "
       << plan.alignment << '\n';
  for (const BufferWant& want : state.buckets->wants()) {
    text << "buffer of kind " << want.kind << ' ' << want.name << " type " << want.dtype << " flags " << want.flags
         << '\n';
  }
  const std::vector<LayoutParameter> order = trained_parameters(state, state.training.layout);
  const std::vector<Device> devices = devices_of(order);
  for (const LayoutParameter& parameter : order) {
    if (devices.size() < 2) break;
    const auto device = std::ranges::find(devices, parameter.device) - devices.begin();
    text << "'" << parameter.name << "' on device " << device << '\n';
  }
  state.agree_on("plans of buckets", text.str(),
                 "the strategy plans different buckets on different ranks; its plan_buckets has to do the same on all");
}

// Throws UserError if trained parameters are on several devices, and a layer does not say that it takes such buckets.
void check_devices(const RankState& state, std::span<const LayoutParameter> order) {
  const std::vector<Device> devices = devices_of(order);
  if (devices.size() < 2) return;
  const auto other = std::ranges::find(order, devices[1], &LayoutParameter::device);
  const std::string places =
      "parameters '" + order.front().name + "' and '" + other->name + "' are on different devices";
  const RankSetup& setup = state.setup;
  UseQuery query{.use = COHORT_USE_DEVICES, .value = static_cast<int64_t>(devices.size())};
  const Answer answer = ask_strategy(setup.plugins, setup.selection.strategy, setup.selection.layers, query);
  if (answer.is_no()) throw UserError(places + ": " + answer.text("train a model on several devices of a process"));
}

}  // namespace

std::vector<BucketPlan> planned_buckets(const RankState& state, const LayoutChoice& choice) {
  return layout_buckets(trained_parameters(state, choice), layout_limits(state, choice));
}

std::vector<LayoutParameter> trained_parameters(const RankState& state, const LayoutChoice& choice) {
  const auto parameters = state.training.model->parameters();
  std::vector<LayoutParameter> order;
  if (!(choice.plan.flags & COHORT_PLAN_KEEP_ORDER) && !choice.arrival_order.empty()) {
    for (const uint32_t id : choice.arrival_order) order.push_back(layout_parameter(state, parameters[id]));
    return order;
  }
  for (size_t i = parameters.size(); i-- > 0;) {
    const bool trained = (parameters[i].flags & COHORT_TENSOR_REQUIRES_GRAD) && parameters[i].nbytes > 0;
    if (trained) order.push_back(layout_parameter(state, parameters[i]));
  }
  return order;
}

LayoutLimits layout_limits(const RankState& state, const LayoutChoice& choice) {
  const cohort_bucket_plan& plan = choice.plan;
  LayoutLimits limits{.align = plan.alignment,
                      .one_bucket = (plan.flags & COHORT_PLAN_ONE_BUCKET) != 0,
                      .any_order = (plan.flags & COHORT_PLAN_KEEP_ORDER) == 0};
  const uint64_t one_size = state.setup.bucket_size.value_or(choice.measured_size);  // for the first bucket, too
  const bool is_sized = one_size > 0 || plan.size > 0;
  limits.size = one_size > 0 ? one_size : plan.size > 0 ? plan.size : kBucketBytes;
  const uint64_t usual_first = plan.size > 0 ? limits.size : kFirstBucketBytes;
  limits.first_size = one_size > 0 ? one_size : plan.first_size > 0 ? plan.first_size : usual_first;
  const bool may_stand_alone = !(plan.flags & COHORT_PLAN_KEEP_SIZE) && gradients_in_place(state) == InPlace::kAlone;
  if (may_stand_alone) limits.alone_size = is_sized ? limits.size : kWorthNoCopyBytes;
  return limits;
}

InPlace gradients_in_place(const RankState& state) {
  if (!state.is_distributed() && state.layers->inherit_the_step()) return InPlace::kAll;
  const bool is_shared = state.comms.world() && (state.comms.world()->flags & COHORT_COMM_SHARED_MEMORY) &&
                         state.comms.world()->collective->vt->alloc;
  return is_shared ? InPlace::kAlone : InPlace::kNone;
}

bool would_change(const RankState& state, const LayoutChoice& choice) {
  const auto plans = planned_buckets(state, choice);
  if (plans.size() != state.buckets->count()) return true;
  for (size_t index = 0; index < plans.size(); ++index) {
    const cohort_bucket& bucket = *state.buckets->get(index);
    const std::span parts(bucket.parts, bucket.num_parts);
    if (!std::ranges::is_permutation(plans[index].parts, parts, {}, &BucketPlan::Part::id, &cohort_bucket_part::id)) {
      return true;
    }
  }
  return false;
}

void leave_buckets(RankState& state) {
  ModelPort& model = *state.training.model;
  const Buckets& buckets = *state.buckets;
  const std::vector<void*> nowhere(model.parameters().size(), nullptr);
  model.place_gradients(nowhere);
  state.buckets->take_back_memory(model.lend_memory({}));
  if (buckets.has(COHORT_BUCKET_WEIGHT)) model.move_weights(nowhere);
  for (const std::string& name : buckets.names(COHORT_BUCKET_OPTIM)) model.optimizers().move_state(name, nowhere);
  state.buckets->reset();
}

void lay_out(RankState& state) {
  state.lanes.each(&Lane::drain);  // tasks know the old places
  if (state.training.engine) leave_buckets(state);
  plan_layout(state);
  agree_on_plan(state);
  ModelPort& model = *state.training.model;
  Buckets& buckets = *state.buckets;
  const size_t parameters = model.parameters().size();
  const auto move_weights = [&] {
    if (buckets.has(COHORT_BUCKET_WEIGHT)) model.move_weights(buckets.places(COHORT_BUCKET_WEIGHT, parameters));
  };
  if (buckets.has_wants()) {
    std::vector<LayoutParameter> order = trained_parameters(state, state.training.layout);
    check_devices(state, order);
    buckets.configure(std::move(order), layout_limits(state, state.training.layout), gradients_in_place(state),
                      move_weights);
  }
  model.place_gradients(buckets.places(COHORT_BUCKET_GRAD, parameters));
  model.lend_memory(buckets.memory_to_lend());
  for (const std::string& name : buckets.names(COHORT_BUCKET_OPTIM)) {
    std::vector<void*> places = buckets.places(COHORT_BUCKET_OPTIM, parameters, name);
    for (uint32_t id = 0; id < parameters; ++id) {
      if (state.training.owners.of(id) == StateKeeper::kAnotherRank) places[id] = nullptr;
    }
    model.optimizers().move_state(name, places);
  }
  if (state.training.engine) state.training.engine->layout_changed();
}

void announce_layout(RankState& state, int32_t reason) {
  cohort_strategy* const strategy = state.strategy();
  state.training.may_make_lanes = true;
  const cohort_status status = strategy->vt->layout_ready(strategy, reason);
  state.training.may_make_lanes = false;
  state.host.check(status, "layout_ready");
}

}  // namespace cohort::host
