// The strategy `bagua`: one algorithm of several, chosen as variant. With one rank it is the optimizer alone.
#include <cstring>
#include <new>

#include <cohort/api/tunable.h>
#include <cohort/sdk/supports.hpp>

#include "algorithm.hpp"
#include "shift_one.hpp"

namespace {

namespace sdk = cohort::sdk;
using namespace cohort::bagua;

struct Entry {
  const char* name;
  std::unique_ptr<Algorithm> (*make)(Context context);
};

constexpr Entry kAlgorithms[] = {
    {"gradient_allreduce", make_gradient_allreduce},
    {"bytegrad", make_bytegrad},
    {"decentralized", make_decentralized},
    {"low_precision_decentralized", make_low_precision_decentralized},
    {"qadam", make_qadam},
    {"async", make_async},
};

class Bagua : public sdk::Strategy<Bagua> {
 public:
  void create(const sdk::Options& options) { settings_ = read_settings(options); }

  void plan(const cohort_job& job, cohort_plan& plan) {
    below().plan(job, plan);
    const int world = job.external_world_size > 0 ? job.external_world_size : job.num_devices * job.num_nodes;
    cohort_job_info planned{};
    planned.world_size = world;
    planned.local_world_size = job.num_devices;
    planned.num_nodes = job.num_nodes;
    check_peers(planned);
  }

  void init_dist_connection(cohort_dist_args& args) {
    below().init_dist_connection(args);
    if (args.world_size == 1) return;
    check_peers(host().job());
    make_algorithm(settings_.hierarchical);
  }

  const void* get_extension(const char* id) {
    const bool is_open = std::strcmp(id, COHORT_TUNABLE_ID) == 0 &&
                         settings_.hierarchical == Settings::Hierarchical::kAuto && keeps_nothing() &&
                         Group(host().job(), settings_.hierarchical).is_hierarchical();
    return is_open ? &tunable_ : below().get_extension(id);
  }

  void configure_model() {
    below().configure_model();
    if (settings_.algorithm == "async") host().set_metric("rounds", 0);  // with one rank, too
    if (algorithm_) algorithm_->configure();
  }
  void plan_buckets(cohort_bucket_plan& plan) {
    below().plan_buckets(plan);
    if (algorithm_) algorithm_->plan_buckets(host().buckets(), plan);
  }
  void layout_ready(int32_t reason) {
    below().layout_ready(reason);
    if (algorithm_) algorithm_->layout_ready(reason);
  }

  void begin_step(const cohort_step& step) {
    below().begin_step(step);
    if (algorithm_) algorithm_->begin_step(step);
  }
  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) {
    if (!algorithm_) return below().reduce_bucket(step, bucket);
    algorithm_->reduce_bucket(bucket);
  }
  void end_backward(const cohort_step& step) {
    below().end_backward(step);
    if (algorithm_ && !settings_.average && (step.flags & COHORT_STEP_REPEATED)) {
      throw sdk::failed_precondition(
          "average=false: two backward passes of one step were summed over the ranks, and the second sum counts the "
          "first one again; add up the losses and call backward once");
    }
    if (algorithm_) algorithm_->end_backward(step);
  }
  void optimizer_step(const cohort_step& step) {
    if (!algorithm_ || !algorithm_->optimizer_step(step)) below().optimizer_step(step);
  }
  void end_step(const cohort_step& step) {
    below().end_step(step);
    if (algorithm_) algorithm_->end_step(step);
  }
  void pause(int32_t reason) {
    below().pause(reason);
    if (algorithm_) algorithm_->pause(reason);
  }
  void save_state() {
    below().save_state();
    if (algorithm_) algorithm_->save_state();
  }
  void load_state() {
    below().load_state();
    if (algorithm_) algorithm_->load_state();
  }
  void shutdown() {
    if (algorithm_) algorithm_->shutdown();
    below().shutdown();
  }

 private:
  void check_peers(const cohort_job_info& job) const {
    const Group group(job, settings_.hierarchical);
    if (settings_.shift_one && job.world_size > 1) require_pairs(group.size(), group.is_hierarchical());
  }

  // Others would have to begin anew with another group.
  bool keeps_nothing() const {
    return settings_.algorithm == "gradient_allreduce" || settings_.algorithm == "bytegrad";
  }

  void make_algorithm(Settings::Hierarchical hierarchical) {
    for (const Entry& entry : kAlgorithms) {
      if (settings_.algorithm != entry.name) continue;
      algorithm_ = entry.make({host(), settings_, Group(host().job(), hierarchical)});
    }
  }

  static cohort_status use(void* self, uint32_t way) noexcept {
    try {
      static_cast<Bagua*>(self)->make_algorithm(way == 0 ? Settings::Hierarchical::kYes : Settings::Hierarchical::kNo);
      return COHORT_OK;
    } catch (const std::bad_alloc&) {
      return COHORT_RESOURCE_EXHAUSTED;
    }
  }

  static constexpr const char* kWays[] = {"hierarchical=true", "hierarchical=false"};  // that of auto first

  Settings settings_;
  std::unique_ptr<Algorithm> algorithm_;  // null with one rank
  cohort_tunable_1 tunable_{sizeof tunable_, 2, kWays, this, use};
};

constexpr const char* kVariants[] = {
    "gradient_allreduce", "bytegrad", "decentralized", "low_precision_decentralized", "qadam", "async", nullptr};

constexpr cohort_option kOptions[] = {
    sdk::option("hierarchical", "enum(auto|true|false)", "auto",
                "one rank of each node exchanges for its node; auto: on several nodes of several ranks"),
    sdk::option("average", "bool", "true", "gradient_allreduce, bytegrad: mean of gradients; false: their sum",
                "gradient_allreduce|bytegrad"),
    sdk::option("bucket_size", "size", "5MiB", "size at which a bucket closes"),
    sdk::option("peer_selection_mode", "enum(all|shift_one)", "all",
                "decentralized: average over all, or with one other rank, another one each time", "decentralized"),
    sdk::option("communication_interval", "int[1..1000000000]", "1",
                "decentralized, low_precision_decentralized: steps from one communication to the next",
                "decentralized|low_precision_decentralized"),
    sdk::option("warmup_steps", "int[0..]|auto", "auto",
                "qadam: steps of Adam at first (auto: the optimizer's, 100); async: steps with averaged gradients at "
                "first (auto: 0)",
                "qadam|async"),
    sdk::option("variance_floor", "float[0..1]", "0.0001",
                "qadam: a second moment is kept as at least this part of its parameter's mean; 0: as it is", "qadam"),
    sdk::option("sync_interval_ms", "int[1..86400000]", "500", "async: milliseconds from one average to the next",
                "async"),
    sdk::option("check_replicas_every", "int[0..1000000000]", "0",
                "low_precision_decentralized: steps from one comparison of copies to the next; 0: none",
                "low_precision_decentralized"),
};

sdk::Answer supports_join(const sdk::Query& query) {
  if (query.variant() == "qadam") {
    return sdk::no("after its warm-up it averages momenta, which of a rank without data are no zeros",
                   "choose --strategy=bagua:bytegrad");
  }
  if (query.variant() != "gradient_allreduce" && query.variant() != "bytegrad") {
    return sdk::no("a rank without data would keep its old weights in the averages",
                   "choose --strategy=bagua:bytegrad");
  }
  if (query.options().flag("average")) return sdk::yes();
  return sdk::no("only an average over the ranks can leave those without data out", "leave average=false out");
}

sdk::Answer keeps_ranks_equal(const sdk::Query& query) {
  const std::string_view variant = query.variant();
  const bool differ = variant == "decentralized" || variant == "low_precision_decentralized" || variant == "async";
  return differ ? sdk::no("ranks average weights that each has trained for itself", "choose --strategy=bagua:bytegrad")
                : sdk::yes();
}

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_CLIPPING && query.variant() == "qadam") {
    return sdk::no("after its warm-up it averages momenta, not gradients",
                   "leave clipping out, or choose --strategy=bagua:bytegrad");
  }
  if (query.use() == COHORT_USE_LOSS_SCALER && query.variant() == "qadam") {
    return sdk::no("its momenta keep what arrives, before a step can be left out",
                   "choose --precision=bf16-mixed, or --strategy=bagua:bytegrad");
  }
  if (query.use() == COHORT_USE_PRECISION && query.variant() == "async") {
    return sdk::no("weights change at moments of its own, which rounded copies do not follow",
                   "choose --precision=bf16-mixed or 16-mixed, or --strategy=bagua:decentralized");
  }
  if (query.use() == COHORT_USE_CLOSURES) {
    return sdk::no("it communicates once in a step", "choose another optimizer, or --strategy=ddp");
  }
  if (query.use() == COHORT_USE_JOIN) return supports_join(query);
  if (query.use() == COHORT_USE_EQUAL_RANKS) return keeps_ranks_equal(query);
  return sdk::yes_to_known(query, {COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION});
}

constexpr cohort_component kBagua =
    sdk::strategy<Bagua>("bagua", "algorithms that send less or wait less, chosen as variant")
        .variants(kVariants)
        .options(kOptions)
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.bagua", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kBagua)
