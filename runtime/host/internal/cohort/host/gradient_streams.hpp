// On which streams the gradients of each bucket were computed, so that reducing it can be ordered behind all of them.
//
// Without devices nothing happens. Threads: noting under the lock of the step engine, following on the lane.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <cohort/host/device_port.hpp>

namespace cohort::host {

class GradientStreams {
 public:
  explicit GradientStreams(RankDevices devices) : devices_(devices) {}

  /// A layout has this many buckets.
  void resize(size_t buckets);
  /// The calling thread's streams compute a gradient of the bucket.
  void note(size_t bucket);
  /// The last gradient of the bucket is on its stream.
  void complete(size_t bucket);
  /// Orders the calling thread's streams behind the gradients of a complete bucket.
  void follow(size_t bucket) const;

 private:
  struct Bucket {
    std::vector<cohort_stream> streams;  // each once
    std::vector<std::shared_ptr<DeviceEvent>> ends;
  };
  RankDevices devices_;
  std::vector<Bucket> buckets_;
};

}  // namespace cohort::host
