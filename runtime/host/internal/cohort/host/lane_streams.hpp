// The streams of a lane, one for each device of the rank, and their order to those of other threads.
//
// Without devices nothing happens. Threads: any; entering and leaving belong to the thread that is the lane.
#pragma once

#include <memory>
#include <vector>

#include <cohort/host/device_port.hpp>

namespace cohort::host {

class LaneStreams {
 public:
  /// Places in the order of streams, one for each device; none without devices.
  using Events = std::vector<std::shared_ptr<DeviceEvent>>;

  explicit LaneStreams(RankDevices devices);

  /// Returns the places where the calling thread's streams are now.
  Events here() const;
  /// Orders the calling thread's streams behind these places.
  void follow(const Events& events) const;
  /// Returns whether the devices have come there.
  static bool are_done(const Events& events);
  /// Makes the lane's streams the calling thread's current ones, or none if a device fails; returns those that were.
  std::vector<cohort_stream> enter() const;
  /// Makes them current again, also where another device fails.
  void leave(const std::vector<cohort_stream>& before) const;
  /// Orders the calling thread's streams behind all that the lane has enqueued.
  void follow_lane() const;

 private:
  RankDevices devices_;
  std::vector<cohort_stream> streams_;  // by device
};

}  // namespace cohort::host
