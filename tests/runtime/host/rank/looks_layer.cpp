// A free layer that changes nothing: it looks at gradients if `wants` says so, and gives what it sees as numbers for
// the summary. It may set a factor of the learning rate.
#include <cohort/sdk/strategy.hpp>

namespace {

namespace sdk = cohort::sdk;

class Looks : public sdk::Strategy<Looks> {
 public:
  void create(const sdk::Options& options) {
    wants_ = options.flag("wants");
    factor_ = options.real("factor");
    trainings_ = options.integer("trainings");
  }

  void configure_model() {
    below().configure_model();
    if (trainings_-- <= 0) return;
    if (factor_ != 1) {
      host().optimizers().set_lr_factor(0, 100);
      host().optimizers().set_lr_factor(0, factor_);  // in place of the one before
    }
  }

  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    if (wants_) host().buckets().want(COHORT_BUCKET_GRAD);
  }

  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    below().reduce_bucket(step, bucket);
    const auto gradients = host().buckets().view(bucket.index, COHORT_BUCKET_GRAD).span<float>();
    host().set_metric("gradient", static_cast<double>(gradients[0]));
  }

  void end_step(const cohort_step& step) {
    below().end_step(step);
    host().set_metric("lr_factor", host().optimizers().hyper(0, "lr_factor").value_or(-1));
  }

 private:
  bool wants_ = true;
  double factor_ = 1;
  int64_t trainings_ = 0;
};

constexpr cohort_option kOptions[] = {
    sdk::option("wants", "bool", "true", "whether gradients are to be there"),
    sdk::option("factor", "float", "1", "of the learning rate"),
    sdk::option("trainings", "int", "1000", "number of trainings that have the factor"),
};
constexpr cohort_component kLooks =
    sdk::strategy<Looks>("looks", "looks at gradients and changes nothing").inherits("*").options(kOptions);

}  // namespace

COHORT_SDK_PLUGIN("org.example.looks", "1.0.0", "Example", "MIT", kLooks)
