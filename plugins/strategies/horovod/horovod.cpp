// Ranks are started by a driver, gradients averaged during backward, learning rates multiplied by the number of ranks.
// The runtime's base does most of the work: weights and optimizer state of rank 0 for all, buckets, overlap.
#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include <cohort/sdk/cast_compression.hpp>
#include <cohort/sdk/strategy.hpp>

#include "adasum.hpp"

namespace {

namespace sdk = cohort::sdk;

enum class Op { kAverage, kSum, kAdasum };

Op op_of(std::string_view name) {
  if (name == "sum") return Op::kSum;
  return name == "adasum" ? Op::kAdasum : Op::kAverage;
}

class Horovod : public sdk::Strategy<Horovod> {
 public:
  void create(const sdk::Options& options) {
    op_ = op_of(options.text("op"));
    scale_lr_ = options.flag("scale_lr");
    fusion_threshold_ = options.bytes("fusion_threshold");
    compression_ = sdk::CastCompression(options.text("compression"));
    if (options.integer("backward_passes_per_step") != 1) {
      throw sdk::invalid_argument(
          "horovod accumulates gradients as every strategy does: instead of "
          "backward_passes_per_step=" +
          std::string(options.text("backward_passes_per_step")) + " give the flag --accumulate-grad-batches");
    }
    if (op_ == Op::kAdasum && options.text("compression") != "none") {
      throw sdk::invalid_argument(
          "op=adasum sends changes of weights, which compression does not reach; leave one of the two out");
    }
  }

  void plan(const cohort_job& job, cohort_plan& plan) {
    const int32_t ranks = job.external_world_size;
    if (ranks == 0) {
      throw sdk::invalid_argument(
          "strategy horovod: a driver starts its ranks, and none has started this process; start the program with "
          "mpirun -np 2 PROGRAM --strategy=horovod, or with cohort run -np 2 PROGRAM --strategy=horovod");
    }
    if (op_ == Op::kAdasum && (ranks & (ranks - 1)) != 0) {
      throw sdk::invalid_argument("op=adasum combines ranks by pairs, so their number is a power of two, not " +
                                  std::to_string(ranks) + "; start 2, 4 or 8, or choose op=average");
    }
    below().plan(job, plan);
    plan.collectives = "mpi,shm,hier,gloo,nccl";
  }

  void configure_model() {
    below().configure_model();
    if (communicates() && scales_rates()) scale_rates(host().world().size());
  }

  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    if (!communicates()) return;
    if (op_ == Op::kAdasum) return cohort::horovod::Adasum::plan(host().buckets(), plan);
    plan.size = fusion_threshold_;
  }

  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    if (op_ != Op::kAdasum) return compression_.prepare(host());
    adasum_.prepare(host());
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    const int32_t reduce = op_ == Op::kSum ? COHORT_REDUCE_SUM : COHORT_REDUCE_MEAN;
    if (compression_.casts(host(), bucket)) return compression_.all_reduce(host(), bucket, reduce);
    if (op_ != Op::kSum) return below().reduce_bucket(step, bucket);
    const sdk::TensorView gradients = host().buckets().view(bucket.index, COHORT_BUCKET_GRAD);
    host().comm(bucket).all_reduce({gradients.data(), bucket.numel, bucket.dtype, host().stream(bucket)}, reduce);
  }

  void end_backward(const cohort_step& step) {
    below().end_backward(step);
    if (op_ != Op::kSum || !communicates() || !(step.flags & COHORT_STEP_REPEATED)) return;
    throw sdk::failed_precondition(
        "op=sum: two backward passes of one step were summed over the ranks, and the second sum counts the first one "
        "again; add up the losses and call backward once");
  }

  void optimizer_step(const cohort_step& step) {
    // Not before: a run that goes on has its rates from the checkpoint.
    if (!std::exchange(has_said_rates_, true) && communicates() && scales_rates()) say_rates(host().world());
    if (op_ != Op::kAdasum || !communicates()) return below().optimizer_step(step);
    phase_ = step.phase;
    adasum_.remember(host(), phase_);
    below().optimizer_step(step);
    const sdk::Lane lane = host().default_lane();
    lane.wait(lane.submit(combine_));
  }

 private:
  bool communicates() const { return host().world().size() > 1; }

  bool scales_rates() const { return scale_lr_ && op_ == Op::kAverage; }

  /// Set anew whenever a model is configured, so it follows the number of ranks of a run that is resumed.
  void scale_rates(int ranks) const {
    const sdk::Optimizers optimizers = host().optimizers();
    for (uint32_t phase = 0; phase < optimizers.count(); ++phase) optimizers.set_lr_factor(phase, ranks);
  }

  void say_rates(const sdk::Comm& world) const {
    if (world.rank() != 0) return;
    const int ranks = world.size();
    std::vector<double> rates;  // of all groups, each once
    for (uint32_t i = 0; i < host().num_params(); ++i) {
      const auto rate = host().optimizers().hyper(i, "lr");
      if (rate && std::find(rates.begin(), rates.end(), *rate) == rates.end()) rates.push_back(*rate);
    }
    std::string text;
    for (const double rate : rates) {
      std::ostringstream change;
      change << rate << " x " << ranks << " = " << rate * ranks;
      text += (text.empty() ? " " : ", ") + change.str();
    }
    host().log().info("Learning rate", rates.empty() ? " x " + std::to_string(ranks) : text,
                      ": horovod multiplies it by the number of ranks (scale_lr=false turns it off)");
  }

  Op op_ = Op::kAverage;
  bool scale_lr_ = true;
  bool has_said_rates_ = false;
  uint64_t fusion_threshold_ = 0;
  uint32_t phase_ = 0;
  sdk::CastCompression compression_;
  cohort::horovod::Adasum adasum_;
  sdk::LaneTask combine_{[this] { adasum_.combine(host(), phase_); }};
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_CLOSURES) {
    return sdk::no("it communicates once in a step", "choose another optimizer, or --strategy=ddp");
  }
  if (query.use() == COHORT_USE_JOIN) {
    if (op_of(query.options().text("op")) == Op::kAverage) return sdk::yes();
    return sdk::no("only an average over the ranks can leave those without data out", "choose op=average");
  }
  if (query.use() != COHORT_USE_ALONE) {
    return sdk::yes_to_known(query, {COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION});
  }
  return sdk::no("a driver starts its ranks", "start the program with mpirun -np N or cohort run -np N");
}

constexpr cohort_option kOptions[] = {
    sdk::option("op", "enum(average|sum|adasum)", "average", "how ranks are put together"),
    sdk::option("scale_lr", "bool", "true", "op=average: learning rates are multiplied by the number of ranks"),
    sdk::option("compression", "enum(none|fp16)", "none", "what gradients are cast to while they travel"),
    sdk::option("fusion_threshold", "size", "0", "size at which a bucket of gradients closes; 0: the runtime's sizes"),
    sdk::option("backward_passes_per_step", "int[1..1000000]", "1", "not here: give --accumulate-grad-batches"),
};

constexpr cohort_component kHorovod =
    sdk::strategy<Horovod>("horovod", "one process per device, started by a driver; learning rate x ranks")
        .options(kOptions)
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.horovod", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kHorovod)
