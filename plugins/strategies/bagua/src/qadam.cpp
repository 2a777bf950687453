// qadam: steps of Adam on the mean gradient first; then the second moment v stays as it is, and each rank's new
// momentum is averaged with one byte for each element:
//
//   m_r = beta1 m + (1 - beta1) g_r      m = mean of m_r through the codec      w -= lr m_hat / (sqrt(v_hat) + eps)
//
// with m_hat = m / (1 - beta1^t) as t goes on and v_hat = v / (1 - beta2^W), W the steps until then. Weight decay is
// that of the optimizer: added to g_r (Adam) or taken off the weights (AdamW).
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "algorithm.hpp"
#include "bucket_lanes.hpp"
#include "compressed_mean.hpp"
#include "not_finite.hpp"
#include "variance_floor.hpp"

namespace cohort::bagua {
namespace {

constexpr const char* kMomentum = "exp_avg";
constexpr const char* kSquare = "exp_avg_sq";

/// Settings of one parameter in this step.
struct Hyper {
  double beta1 = 0, beta2 = 0, eps = 0;
  double l2 = 0;         // added to the gradient
  double decoupled = 0;  // taken off the weight
};

class Qadam final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void configure() override { require_adam(); }

  void plan_buckets(const sdk::Buckets& buckets, cohort_bucket_plan& plan) override {
    buckets.want(COHORT_BUCKET_WEIGHT);
    for (const char* name : {kMomentum, kSquare}) buckets.want(COHORT_BUCKET_OPTIM, name);
    plan.size = settings().bucket_size;
    plan.alignment = static_cast<uint64_t>(group().size());
    plan.flags |= COHORT_PLAN_KEEP_ORDER | COHORT_PLAN_KEEP_SIZE;
  }

  void layout_ready(int32_t) override {
    not_finite_.configure(host(), group().size());
    lanes_.configure(host(), [this](const cohort_bucket& bucket, std::size_t lane) { reduce(bucket, means_[lane]); });
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      means_[lanes_.lane_of(bucket)].reserve(host(), bucket, group().size());
    });
    hypers_.assign(host().num_params(), {});
    is_reduced_.assign(host().buckets().count(), 0);
    is_warm_up_.assign(host().optimizers().count(), true);
    find_warmup_steps();
  }

  // Schedules change settings between steps.
  void begin_step(const cohort_step& step) override {
    lanes_.finish();
    not_finite_.report_kept(host());
    if (!(step.flags & COHORT_STEP_FIRST)) return;
    is_warm_up_[step.phase] = step.step < warmup_steps_[step.phase];
    for_buckets(host(), step.phase, [&](const cohort_bucket& bucket) { is_reduced_[bucket.index] = 0; });
    if (!is_warm_up_[step.phase]) read_hypers(step.phase);
  }

  void reduce_bucket(const cohort_bucket& bucket) override { lanes_.run(bucket); }
  void pause(int32_t) override { not_finite_.report_kept(host()); }

  bool optimizer_step(const cohort_step& step) override {
    if (is_warm_up_[step.phase]) return false;
    for_buckets(host(), step.phase, [&](const cohort_bucket& bucket) {
      floor_.raise(host(), bucket, elements_of(host(), bucket, COHORT_BUCKET_OPTIM, kSquare));
      for (uint64_t i = 0; i < bucket.num_parts; ++i) step_part(step, bucket, bucket.parts[i]);
    });
    floor_.report(host());
    return true;
  }

  void save_state() override { floor_.save(host()); }
  void load_state() override { floor_.load(host()); }

 private:
  std::array<CompressedMean, BucketLanes::kCount> means_;  // by lane
  NotFinite not_finite_{"momentum"};
  BucketLanes lanes_;
  VarianceFloor floor_{settings().variance_floor};
  std::vector<Hyper> hypers_;           // by parameter
  std::vector<bool> is_warm_up_;        // by phase
  std::vector<uint64_t> warmup_steps_;  // by phase
  std::vector<uint8_t> is_reduced_;     // by bucket: its momentum has taken in this step's gradient
  bool is_unknown_said_ = false;

  static sdk::Error reduced_twice() {
    return sdk::failed_precondition(
        "bagua:qadam: two backward passes of one step were averaged, and the momentum would count the first one twice; "
        "add up the losses and call backward once");
  }

  void require_adam() const {
    const sdk::Optimizers optimizers = host().optimizers();
    for (uint32_t phase = 0; phase < optimizers.count(); ++phase) {
      const std::string_view kind = optimizers.kind(phase);
      if (kind == "adam" || kind == "adamw") continue;
      throw sdk::invalid_argument("bagua:qadam takes over Adam or AdamW, and optimizer " + std::to_string(phase) +
                                  " is " + (kind.empty() ? "another one" : "'" + std::string(kind) + "'") +
                                  "; return Adam or AdamW from configure_optimizers, or choose bagua:bytegrad");
    }
    for (uint32_t parameter = 0; parameter < host().num_params(); ++parameter) {
      if (optimizers.hyper(parameter, "amsgrad").value_or(0) == 0) continue;
      throw sdk::invalid_argument("bagua:qadam keeps no maximum of second moments; turn amsgrad off");
    }
  }

  // The user's option, else what the optimizer was made with.
  void find_warmup_steps() {
    warmup_steps_.assign(is_warm_up_.size(), settings().warmup_steps.value_or(kQadamWarmupSteps));
    if (settings().warmup_steps) return;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      const auto own = host().optimizers().hyper(bucket.parts[0].id, "warmup_steps");
      if (own) warmup_steps_[bucket.phase] = static_cast<uint64_t>(*own);
    });
  }

  void read_hypers(uint32_t phase) {
    const sdk::Optimizers optimizers = host().optimizers();
    const bool is_decoupled = optimizers.kind(phase) == "adamw";
    for_buckets(host(), phase, [&](const cohort_bucket& bucket) {
      for (uint64_t i = 0; i < bucket.num_parts; ++i) {
        const uint32_t id = bucket.parts[i].id;
        const auto value = [&](const char* name) { return optimizers.hyper(id, name).value_or(0); };
        const double decay = value("weight_decay");
        hypers_[id] = {value("beta1"), value("beta2"), value("eps"), is_decoupled ? 0 : decay,
                       is_decoupled ? decay : 0};
      }
    });
  }

  void reduce(const cohort_bucket& bucket, CompressedMean& mean) {
    const sdk::Elements gradients = elements_of(host(), bucket, COHORT_BUCKET_GRAD);
    if (is_warm_up_[bucket.phase]) return host().comm(bucket).all_reduce(gradients, COHORT_REDUCE_MEAN);
    if (std::exchange(is_reduced_[bucket.index], uint8_t{1})) throw reduced_twice();
    const sdk::Elements momentum = elements_of(host(), bucket, COHORT_BUCKET_OPTIM, kMomentum);
    for (uint64_t i = 0; i < bucket.num_parts; ++i) update_momentum(bucket, bucket.parts[i], gradients, momentum);
    group().collect(host(), momentum);
    if (group().takes_part()) average(bucket, momentum, mean);
    group().spread(host(), momentum);
  }

  void update_momentum(const cohort_bucket& bucket, const cohort_bucket_part& part, const sdk::Elements& gradients,
                       const sdk::Elements& momentum) const {
    const Hyper& hyper = hypers_[part.id];
    const sdk::Elements gradient = part_of(gradients, part);
    if (hyper.l2 != 0) {
      axpby(host(), gradient, part_of(elements_of(host(), bucket, COHORT_BUCKET_WEIGHT), part), hyper.l2, 1.0);
    }
    axpby(host(), part_of(momentum, part), gradient, 1.0 - hyper.beta1, hyper.beta1);
  }

  void average(const cohort_bucket& bucket, const sdk::Elements& momentum, CompressedMean& mean) {
    const sdk::Comm ranks = group().comm(host(), bucket);
    const double divisor = group().world_size();
    if (ranks.size() == 1) return scale(host(), momentum, 1.0 / divisor);  // one node: nothing leaves it
    clear_padding(host(), bucket, momentum);
    mean.average(host(), ranks, bucket, momentum, divisor, not_finite_);
  }

  void step_part(const cohort_step& step, const cohort_bucket& bucket, const cohort_bucket_part& part) {
    const sdk::Optimizers optimizers = host().optimizers();
    const Hyper& hyper = hypers_[part.id];
    const int64_t counted = optimizers.steps(part.id).value_or(0) + 1;
    optimizers.set_steps(part.id, counted);
    const int64_t kept_since = counted - static_cast<int64_t>(step.step + 1 - warmup_steps_[step.phase]);
    if (kept_since < 1) return say_unknown(part);
    const auto at = [&](int32_t kind, const char* name) {
      return part_of(elements_of(host(), bucket, kind, name), part);
    };
    const sdk::Elements weight = at(COHORT_BUCKET_WEIGHT, nullptr);
    // Not before: a loop may set it as late as other strategies would see it.
    const double lr = optimizers.hyper(part.id, "lr").value_or(0) * optimizers.hyper(part.id, "lr_factor").value_or(1);
    const double rate = lr / (1.0 - std::pow(hyper.beta1, static_cast<double>(counted)));
    const double correction = std::sqrt(1.0 - std::pow(hyper.beta2, static_cast<double>(kept_since)));
    host()
        .adam_kernels(bucket.device_type)
        .step(weight, at(COHORT_BUCKET_OPTIM, kMomentum).data, at(COHORT_BUCKET_OPTIM, kSquare).data,
              {1.0 - lr * hyper.decoupled, rate, correction, hyper.eps});
  }

  // A step by momentum / eps would be huge.
  void say_unknown(const cohort_bucket_part& part) {
    if (is_unknown_said_) return;
    is_unknown_said_ = true;
    host().log().warning("bagua:qadam leaves '", part.name,
                         "' as it is: no step of the warm-up has reached it, so its second moment is not known; give "
                         "more warmup_steps");
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_qadam(Context context) {
  return std::make_unique<Qadam>(std::move(context));
}

}  // namespace cohort::bagua
