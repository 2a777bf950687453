#include "bucket_lanes.hpp"

#include <map>
#include <string>
#include <utility>

#include "algorithm.hpp"

namespace cohort::bagua {

void BucketLanes::configure(const sdk::Host& host, Work work) {
  work_ = std::move(work);
  turns_.clear();
  turns_.resize(host.buckets().count());
  std::map<uint32_t, std::size_t> buckets_of;  // by phase
  for_all_buckets(host, [&](const cohort_bucket& bucket) { ++buckets_of[bucket.phase]; });
  std::map<uint32_t, std::size_t> seen;
  for_all_buckets(host, [&](const cohort_bucket& bucket) {
    Turn& turn = turns_[bucket.index];
    const std::size_t position = seen[bucket.phase]++, all = buckets_of[bucket.phase];
    turn.lane = position % kCount;
    turn.is_last = position + 1 == all;
    if (all == 1) return;
    turn.task = std::make_unique<sdk::LaneTask>([this, &bucket, lane = turn.lane] { work_(bucket, lane); });
    std::optional<sdk::Lane>& lane = queues_[turn.lane].lane;
    if (!lane) lane = host.lane(("buckets-" + std::to_string(turn.lane)).c_str());
  });
}

void BucketLanes::run(const cohort_bucket& bucket) {
  Turn& turn = turns_[bucket.index];
  if (!turn.task) return work_(bucket, turn.lane);
  Queue& queue = queues_[turn.lane];
  queue.ticket = queue.lane->submit(*turn.task);
  if (turn.is_last) finish();
}

void BucketLanes::finish() {
  for (Queue& queue : queues_) {
    if (queue.ticket != 0) queue.lane->wait(std::exchange(queue.ticket, 0));
  }
}

}  // namespace cohort::bagua
