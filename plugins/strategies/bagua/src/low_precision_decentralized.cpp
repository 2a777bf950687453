// low_precision_decentralized: ranks in a ring send their neighbours what has changed in their weights, one byte for
// each element. Each keeps W, what others know of its own weights, and L and R, the same of its neighbours. After the
// optimizer's step to x:
//
//   z = x + L/3 + R/3 - 5W/3      C = Q(z), sent to both neighbours
//   L += C of the left one        R += C of the right one        W += C        x = W
//
// A rank takes its own quantised change, so its neighbours' copies of it are bit-equal to its weights. z is written
// over the weights; all chunks of a step go in one exchange. With two ranks the one neighbour is both: it is sent to,
// and kept, once.
#include <array>
#include <utility>
#include <vector>

#include <cohort/sdk/hash.hpp>

#include "algorithm.hpp"
#include "codec.hpp"

namespace cohort::bagua {
namespace {

constexpr const char* kOwn = "own";
constexpr const char* kLeft = "left";
constexpr const char* kRight = "right";
constexpr const char* kRing = "ring";

class LowPrecisionDecentralized final : public Algorithm {
 public:
  using Algorithm::Algorithm;

  void plan_buckets(const sdk::Buckets& buckets, cohort_bucket_plan& plan) override {
    buckets.drop(COHORT_BUCKET_GRAD);
    buckets.want(COHORT_BUCKET_WEIGHT);
    for (const char* name : copies()) buckets.want(COHORT_BUCKET_STATE, name);
    plan.size = settings().bucket_size;
    plan.flags |= COHORT_PLAN_KEEP_ORDER | COHORT_PLAN_KEEP_SIZE;
  }

  // All ranks have the same weights when training begins, and after a checkpoint of a strategy that keeps no copies.
  void layout_ready(int32_t reason) override {
    make_chunks();
    const bool has_copies = reason == COHORT_LAYOUT_RESUMED && copies_are_restored_;
    if (reason != COHORT_LAYOUT_AGAIN && !has_copies) set_copies();
  }

  void end_step(const cohort_step& step) override {
    if (step.step % settings().communication_interval == 0) {
      if (group().size() > 1) {
        communicate(step.phase);
      } else {
        // One node: what does not leave it is not compressed.
        for_buckets(host(), step.phase, [&](const cohort_bucket& bucket) { average_weights(host(), bucket); });
      }
    }
    const uint64_t every = settings().check_replicas_every;
    if (every != 0 && (step.step + 1) % every == 0 && group().size() > 1 && group().takes_part() &&
        host().buckets().count() > 0)
      check_replicas();
  }

  void pause(int32_t reason) override {
    if (reason != COHORT_PAUSE_END) return;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) { average_weights(host(), bucket); });
    set_copies();  // all ranks have the same weights again
  }

  void save_state() override {
    const Ring ring = place_in_ring();
    host().save(kRing, ring.data(), sizeof ring);
  }
  void load_state() override {
    Ring saved = place_in_ring();
    copies_are_restored_ = host().load(kRing, saved.data(), sizeof saved);
    if (saved == place_in_ring()) return;
    throw sdk::invalid_argument(
        "bagua:low_precision_decentralized: the checkpoint holds copies of other neighbours' weights, as its ranks "
        "were spread differently over nodes; resume with as many ranks on each node and the same hierarchical=");
  }

 private:
  struct Chunks {
    sdk::DeviceBuffer own, left, right;
  };
  using Ring = std::array<int32_t, 4>;

  std::vector<Chunks> chunks_;  // by bucket
  std::vector<cohort_message> messages_;
  bool copies_are_restored_ = false;  // by the last load_state

  bool is_pair() const { return group().size() == 2; }
  std::vector<const char*> copies() const {
    return is_pair() ? std::vector{kOwn, kLeft} : std::vector{kOwn, kLeft, kRight};
  }

  void set_copies() const {
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      const sdk::Elements weights = elements_of(host(), bucket, COHORT_BUCKET_WEIGHT);
      for (const char* name : copies()) copy(host(), elements_of(host(), bucket, COHORT_BUCKET_STATE, name), weights);
    });
  }

  // Whose weights this rank keeps copies of.
  Ring place_in_ring() const {
    return {group().is_hierarchical(), group().size(), group().takes_part(), group().represented()};
  }
  int left_of(int rank) const { return (rank + group().size() - 1) % group().size(); }
  int right_of(int rank) const { return (rank + 1) % group().size(); }

  void make_chunks() {
    chunks_.clear();
    messages_.clear();
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      const auto make = [&] {
        return host().alloc(bucket.device_type, bucket.device_index, chunk_nbytes(bucket.numel));
      };
      chunks_.push_back({make(), make(), is_pair() ? sdk::DeviceBuffer() : make()});
    });
    messages_.reserve(4 * chunks_.size());
  }

  void communicate(uint32_t phase) {
    messages_.clear();
    for_buckets(host(), phase, [&](const cohort_bucket& bucket) { hand_in(bucket); });
    if (group().takes_part() && host().buckets().count() > 0) {
      const sdk::Comm ring = group().comm(host(), host().buckets().at(0));
      for_buckets(host(), phase, [&](const cohort_bucket& bucket) {
        encode_change(bucket);
        add_messages(ring.rank(), bucket);
      });
      ring.exchange({messages_.data(), messages_.size()}, stream());
      for_buckets(host(), phase, [&](const cohort_bucket& bucket) { take_changes(bucket); });
    }
    for_buckets(host(), phase, [&](const cohort_bucket& bucket) {
      group().spread(host(), elements_of(host(), bucket, COHORT_BUCKET_WEIGHT));
    });
  }

  // A model may have nothing to train.
  cohort_stream stream() const {
    const sdk::Buckets buckets = host().buckets();
    return buckets.count() > 0 ? host().stream(buckets.at(0)) : cohort_stream{nullptr, COHORT_DEVICE_CPU, 0};
  }

  // A node's leader goes on with the mean over its node.
  void hand_in(const cohort_bucket& bucket) const {
    if (!group().is_hierarchical()) return;
    const sdk::Elements weights = elements_of(host(), bucket, COHORT_BUCKET_WEIGHT);
    group().collect(host(), weights);
    if (!group().takes_part() || group().represented() == 1) return;
    scale(host(), weights, 1.0 / group().represented());
  }

  void encode_change(const cohort_bucket& bucket) {
    const auto at = [&](const char* name) { return elements_of(host(), bucket, COHORT_BUCKET_STATE, name).data; };
    const sdk::Elements z = elements_of(host(), bucket, COHORT_BUCKET_WEIGHT);
    host().ring_kernels(bucket.device_type).change(z, at(kLeft), at(is_pair() ? kLeft : kRight), at(kOwn));
    host().minmax_uint8_kernels(bucket.device_type).encode(chunks_[bucket.index].own.data(), z);
  }

  void add_messages(int rank, const cohort_bucket& bucket) {
    Chunks& chunks = chunks_[bucket.index];
    const uint64_t nbytes = chunks.own.nbytes();
    messages_.push_back({chunks.own.data(), nbytes, right_of(rank), 1});
    messages_.push_back({chunks.left.data(), nbytes, left_of(rank), 0});
    if (is_pair()) return;
    messages_.push_back({chunks.own.data(), nbytes, left_of(rank), 1});
    messages_.push_back({chunks.right.data(), nbytes, right_of(rank), 0});
  }

  void take_changes(const cohort_bucket& bucket) {
    const sdk::MinmaxUint8Kernels codec = host().minmax_uint8_kernels(bucket.device_type);
    const Chunks& chunks = chunks_[bucket.index];
    const auto add = [&](const char* name, const sdk::DeviceBuffer& chunk) {
      const sdk::Elements replica = elements_of(host(), bucket, COHORT_BUCKET_STATE, name);
      codec.decode_add(replica, replica.data, chunk.data());
      return replica;
    };
    add(kLeft, chunks.left);
    if (!is_pair()) add(kRight, chunks.right);
    const sdk::Elements own = add(kOwn, chunks.own);
    copy(host(), elements_of(host(), bucket, COHORT_BUCKET_WEIGHT), own);
  }

  uint64_t checksum_of(const char* name) const {
    sdk::Hash sum;
    for_all_buckets(host(), [&](const cohort_bucket& bucket) {
      const sdk::Elements state = elements_of(host(), bucket, COHORT_BUCKET_STATE, name);
      std::vector<unsigned char> bytes(bucket.nbytes);
      host().read(bytes.data(), state.data, bucket.nbytes, state.stream);
      sum.add(bytes.data(), bucket.nbytes);
    });
    return sum.value();
  }

  void check_replicas() const {
    const sdk::Comm ring = group().comm(host(), host().buckets().at(0));
    uint64_t own = checksum_of(kOwn), of_left = 0, of_right = 0;
    const int left = left_of(ring.rank()), right = right_of(ring.rank());
    const cohort_message messages[] = {{&own, sizeof own, right, 1},
                                       {&of_left, sizeof of_left, left, 0},
                                       {&own, sizeof own, left, 1},
                                       {&of_right, sizeof of_right, right, 0}};
    ring.exchange({messages, 4});
    if (of_left != checksum_of(kLeft)) throw drifted(left);
    if (of_right != checksum_of(is_pair() ? kLeft : kRight)) throw drifted(right);
  }

  sdk::Error drifted(int neighbour) const {
    return {COHORT_DATA_LOSS, "bagua:low_precision_decentralized: the copy of " +
                                  std::string(group().is_hierarchical() ? "node " : "rank ") +
                                  std::to_string(neighbour) +
                                  "'s weights that this rank keeps has drifted from them; something else changes "
                                  "weights between steps, or a rank computes differently"};
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_low_precision_decentralized(Context context) {
  return std::make_unique<LowPrecisionDecentralized>(std::move(context));
}

}  // namespace cohort::bagua
