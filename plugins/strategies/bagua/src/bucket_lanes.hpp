// The buckets of a backward on several lanes in turn: while some travel, another one is encoded.
//
// Which lane a bucket takes depends on the layout alone, so it is the same on all ranks. A phase with one bucket needs
// none beside the lane that reduces buckets. Owned by an algorithm. Threads: configure on [main], finish on [step], run
// on the lane that reduces buckets.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <cohort/sdk/host.hpp>

namespace cohort::bagua {

class BucketLanes {
 public:
  static constexpr std::size_t kCount = 3;
  /// What is done with a bucket, on one of the lanes; on all of them at the same time.
  using Work = std::function<void(const cohort_bucket& bucket, std::size_t lane)>;

  /// After each layout of the buckets. Collective.
  void configure(const sdk::Host& host, Work work);
  std::size_t lane_of(const cohort_bucket& bucket) const { return turns_[bucket.index].lane; }
  /// In reduce_bucket: begins the work. When the call for the last bucket of a phase returns all are done.
  void run(const cohort_bucket& bucket);
  /// In begin_step: waits for what a step left that failed half-way.
  void finish();

 private:
  struct Turn {
    std::unique_ptr<sdk::LaneTask> task;  // null: the only bucket of its phase
    std::size_t lane = 0;
    bool is_last = false;
  };
  struct Queue {
    std::optional<sdk::Lane> lane;
    sdk::Lane::Ticket ticket = 0;  // of the last work; 0: none
  };

  Work work_;
  std::vector<Turn> turns_;  // by bucket
  std::array<Queue, kCount> queues_;
};

}  // namespace cohort::bagua
