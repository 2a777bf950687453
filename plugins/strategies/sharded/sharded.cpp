// Data parallel with a sharded optimizer (ZeRO, stage 1: Rajbhandari et al., "ZeRO: memory optimizations toward
// training trillion parameter models", 2020). One process per device. Each parameter has one rank that owns it: that
// rank gets its mean gradient, keeps its state of the optimizer, makes its step, and gives its weights to all.
//
// Owners are chosen before buckets are laid out (owners.hpp) and stay for the whole training, whatever the layout. In a
// step a bucket's gradients are scattered to the owners during backward; then the parameters of one bucket are stepped
// while lane 0 gathers the weights of the one before.
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include <cohort/sdk/strategy.hpp>

#include "owners.hpp"
#include "pieces.hpp"

namespace {

namespace sdk = cohort::sdk;
namespace sharded = cohort::sharded;

class Sharded : public sdk::Strategy<Sharded> {
 public:
  static constexpr bool kPartialGradients = true;

  void configure_model() {
    if (communicates()) own_parameters();
    below().configure_model();
  }

  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    if (!communicates()) return;
    host().buckets().want(COHORT_BUCKET_WEIGHT);
    plan.flags |= COHORT_PLAN_KEEP_ORDER;  // in which owners were chosen
  }

  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    shards_.clear();
    prepare_norm();
    for (uint32_t i = 0; communicates() && i < host().buckets().count(); ++i) {
      const cohort_bucket& bucket = host().buckets().at(i);
      const sdk::Comm comm = host().comm(bucket);
      Shard& shard = shards_.emplace_back([this, i] { gather(i); });
      shard.stretches = sharded::stretches_of(bucket, owners_, comm.size());
      for (uint64_t part = 0; part < bucket.num_parts; ++part) {
        const uint32_t id = bucket.parts[part].id;
        if (owners_[id] == comm.rank()) shard.own.push_back(id);
      }
    }
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    if (!communicates()) return below().reduce_bucket(step, bucket);
    if (step.flags & COHORT_STEP_REPEATED) {
      throw sdk::failed_precondition(
          "sharded: after the first backward of a step a rank has the gradients of its own parameters alone, to which "
          "a second one cannot be added; add up the losses and call backward once, or put the first under no_sync()");
    }
    const sdk::Elements gradients = elements_of(bucket, COHORT_BUCKET_GRAD);
    for (const sharded::Stretch& stretch : shards_[bucket.index].stretches) {
      sharded::reduce_to_owners(host().comm(bucket), gradients, stretch);
    }
  }

  void clip_gradients(const cohort_step& step, const cohort_clip_args& args) {
    const bool by_value = args.by == COHORT_CLIP_VALUE;
    if (!communicates() || args.given_norm || (by_value && !args.norm)) return below().clip_gradients(step, args);
    auto* const measured = static_cast<double*>(norm_.data());
    constexpr double kNoLimit = std::numeric_limits<double>::infinity();
    below().clip_gradients(step, {sizeof args, COHORT_CLIP_NORM, kNoLimit, measured, nullptr});
    const cohort_stream stream = host().stream(device_type_, device_index_);
    double own = 0;
    host().read(&own, measured, sizeof own, stream);
    double squares = own * own;
    host().world().all_reduce({&squares, 1, COHORT_FLOAT64}, COHORT_REDUCE_SUM);
    const double norm = std::sqrt(squares);
    host().write(measured, &norm, sizeof norm, stream);
    below().clip_gradients(step, {sizeof args, args.by, args.limit, args.norm, measured});
  }

  void optimizer_step(const cohort_step& step) {
    if (!communicates()) return below().optimizer_step(step);
    const sdk::Lane lane = host().default_lane();
    sdk::Lane::Ticket last = 0;
    for (uint32_t index = 0; index < shards_.size(); ++index) {
      Shard& shard = shards_[index];
      if (host().buckets().at(index).phase != step.phase) continue;
      if (!shard.own.empty()) host().optimizers().step(step.phase, {shard.own.data(), shard.own.size()});
      last = lane.submit(shard.gather);
    }
    if (last > 0) lane.wait(last);
  }

 private:
  /// A bucket: its stretches, this rank's parameters in it, and the task that gathers its weights.
  struct Shard {
    explicit Shard(std::function<void()> work) : gather(std::move(work)) {}
    std::vector<sharded::Stretch> stretches;
    std::vector<uint32_t> own;  // parameters
    sdk::LaneTask gather;
  };

  bool communicates() const { return host().world().size() > 1; }

  sdk::Elements elements_of(const cohort_bucket& bucket, int32_t kind) const {
    const sdk::TensorView view = host().buckets().view(bucket.index, kind);
    return {view.data(), bucket.numel, bucket.dtype, host().stream(bucket)};
  }

  void own_parameters() {
    const sdk::Optimizers optimizers = host().optimizers();
    owners_.assign(host().num_params(), 0);
    std::map<std::pair<uint32_t, int32_t>, sharded::Line> by_bucket;  // phase and type
    for (uint32_t id = host().num_params(); id-- > 0;) {
      const sdk::TensorView weight = host().param(id);
      if (weight.requires_grad()) {
        by_bucket[{optimizers.phase_of(id), weight.dtype()}].push_back({id, weight.nbytes()});
      }
    }
    std::vector<sharded::Line> lines;
    for (auto& [key, line] : by_bucket) lines.push_back(std::move(line));
    const auto owners = sharded::owners_of(lines, host().world().size());
    for (size_t line = 0; line < lines.size(); ++line) {
      for (size_t i = 0; i < lines[line].size(); ++i) owners_[lines[line][i].id] = owners[line][i];
    }
    std::vector<std::vector<uint32_t>> own(optimizers.count());
    for (uint32_t id = 0; id < owners_.size(); ++id) {
      if (owners_[id] == host().world().rank()) own[optimizers.phase_of(id)].push_back(id);
    }
    for (uint32_t phase = 0; phase < own.size(); ++phase) optimizers.own(phase, {own[phase].data(), own[phase].size()});
  }

  void gather(uint32_t index) const {
    const cohort_bucket& bucket = host().buckets().at(index);
    const sdk::Elements weights = elements_of(bucket, COHORT_BUCKET_WEIGHT);
    for (const sharded::Stretch& stretch : shards_[index].stretches) {
      sharded::gather_from_owners(host().comm(bucket), weights, stretch);
    }
  }

  void prepare_norm() {
    if (host().buckets().count() > 0) {
      device_type_ = host().buckets().at(0).device_type;
      device_index_ = host().buckets().at(0).device_index;
    }
    norm_ = host().alloc(device_type_, device_index_, sizeof(double));
  }

  int32_t device_type_ = COHORT_DEVICE_CPU, device_index_ = 0;  // of the buckets
  sdk::DeviceBuffer norm_;
  std::vector<int> owners_;   // by parameter
  std::deque<Shard> shards_;  // by bucket
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() != COHORT_USE_CLOSURES) {
    return sdk::yes_to_known(query, {COHORT_USE_JOIN, COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION});
  }
  return sdk::no("each rank steps its own parameters alone", "choose another optimizer, or --strategy=ddp");
}

constexpr cohort_component kSharded =
    sdk::strategy<Sharded>("sharded", "as ddp, but each rank keeps a part of the optimizer's state")
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.sharded", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kSharded)
