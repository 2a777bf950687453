// decentralized: weights are averaged, with all ranks or with one other, while forward and backward go on with the old
// ones; then the optimizer steps from the average with the gradient at the old weights.
#include <vector>

#include "algorithm.hpp"
#include "shift_one.hpp"

namespace cohort::bagua {
namespace {

constexpr const char* kPeer = "peer";    // becomes the average
constexpr const char* kOther = "other";  // the other node's sum

class Decentralized final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void plan_buckets(const sdk::Buckets& buckets, cohort_bucket_plan& plan) override {
    buckets.drop(COHORT_BUCKET_GRAD);
    buckets.want(COHORT_BUCKET_WEIGHT);
    buckets.want(COHORT_BUCKET_STATE, kPeer, 0, COHORT_STATE_SCRATCH);
    if (pairs_nodes()) buckets.want(COHORT_BUCKET_STATE, kOther, 0, COHORT_STATE_SCRATCH);
    plan.flags |= COHORT_PLAN_ONE_BUCKET;
  }

  void layout_ready(int32_t) override {
    if (pairs_nodes() && group().takes_part()) gather_represented();
    phases_.clear();
    for (uint32_t phase = 0; phase < host().optimizers().count(); ++phase) {
      phases_.push_back(std::make_unique<Phase>([this, phase] { average(phase); }));
    }
  }

  // The first step communicates. Nothing writes weights until end_backward.
  void begin_step(const cohort_step& step) override {
    Phase& phase = *phases_[step.phase];
    if (!(step.flags & COHORT_STEP_FIRST)) return;
    wait_for(phase);  // of a step that was given up
    if (step.step % settings().communication_interval != 0) return;
    phase.round = step.step / settings().communication_interval;
    phase.ticket = host().default_lane().submit(phase.task);
  }

  void end_backward(const cohort_step& step) override {
    Phase& phase = *phases_[step.phase];
    if (!(step.flags & COHORT_STEP_LAST) || phase.ticket == 0) return;
    wait_for(phase);
    for_buckets(host(), step.phase, [&](const cohort_bucket& bucket) { copy(host(), weights(bucket), peer(bucket)); });
  }

  void pause(int32_t reason) override {
    if (reason != COHORT_PAUSE_END) return;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) { average_weights(host(), bucket); });
  }

 private:
  struct Phase {
    explicit Phase(std::function<void()> work) : task(std::move(work)) {}
    sdk::LaneTask task;
    sdk::Lane::Ticket ticket = 0;  // 0: none is under way
    uint64_t round = 0;            // of communications, from 0
  };
  std::vector<std::unique_ptr<Phase>> phases_;
  std::vector<int64_t> represented_;  // ranks that each node's leader stands for

  void gather_represented() {
    const sdk::Comm leaders = host().leaders();
    int64_t own = group().represented();
    represented_.resize(static_cast<std::size_t>(leaders.size()));
    leaders.all_gather({&own, 1, COHORT_INT64}, represented_.data());
  }

  bool pairs_nodes() const { return settings().shift_one && group().is_hierarchical(); }
  sdk::Elements weights(const cohort_bucket& bucket) const { return elements_of(host(), bucket, COHORT_BUCKET_WEIGHT); }
  sdk::Elements peer(const cohort_bucket& bucket) const {
    return elements_of(host(), bucket, COHORT_BUCKET_STATE, kPeer);
  }

  void wait_for(Phase& phase) {
    if (phase.ticket != 0) host().default_lane().wait(phase.ticket);
    phase.ticket = 0;
  }

  // [lane]
  void average(uint32_t phase) {
    for_buckets(host(), phase, [&](const cohort_bucket& bucket) {
      if (group().is_hierarchical()) {
        average_over_nodes(bucket, phases_[phase]->round);
      } else if (settings().shift_one) {
        average_with_one(bucket, phases_[phase]->round);
      } else {
        host().comm(bucket).all_reduce(weights(bucket), peer(bucket).data, COHORT_REDUCE_MEAN);
      }
    });
  }

  void average_with_one(const cohort_bucket& bucket, uint64_t round) const {
    const sdk::Comm world = host().comm(bucket);
    const int other = shift_one_peer(world.rank(), world.size(), round);
    const cohort_message messages[] = {{weights(bucket).data, bucket.nbytes, other, 1},
                                       {peer(bucket).data, bucket.nbytes, other, 0}};
    world.exchange({messages, 2}, host().stream(bucket));
    axpby(host(), peer(bucket), weights(bucket), 0.5, 0.5);
  }

  // Sums of nodes divided by ranks: a rank counts alike, whatever its node.
  void average_over_nodes(const cohort_bucket& bucket, uint64_t round) const {
    const sdk::Elements sum = peer(bucket);
    copy(host(), sum, weights(bucket));
    group().collect(host(), sum);
    if (group().takes_part()) {
      const sdk::Comm leaders = host().leaders();
      if (settings().shift_one) {
        add_other_node(bucket, shift_one_peer(leaders.rank(), leaders.size(), round));
      } else {
        if (leaders.size() > 1) leaders.all_reduce(sum, COHORT_REDUCE_SUM);
        scale(host(), sum, 1.0 / group().world_size());
      }
    }
    group().spread(host(), sum);
  }

  void add_other_node(const cohort_bucket& bucket, int other) const {
    const sdk::Elements sum = peer(bucket), other_sum = elements_of(host(), bucket, COHORT_BUCKET_STATE, kOther);
    const cohort_message messages[] = {{sum.data, bucket.nbytes, other, 1}, {other_sum.data, bucket.nbytes, other, 0}};
    host().leaders().exchange({messages, 2}, sum.stream);
    const int64_t ranks = group().represented() + represented_[static_cast<std::size_t>(other)];
    const double factor = 1.0 / static_cast<double>(ranks);
    axpby(host(), sum, other_sum, factor, factor);
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_decentralized(Context context) {
  return std::make_unique<Decentralized>(std::move(context));
}

}  // namespace cohort::bagua
