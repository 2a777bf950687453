// The threads of one rank that communicate, each on its own communicators.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/device_port.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/lane.hpp>

#include "rank_comms.hpp"

namespace cohort::host {

/// A thread that communicates, with its own communicators.
struct RankLane {
  std::string name;
  RoleComms comms;
  std::unique_ptr<Lane> thread;  // null before connect
};

/// [main] thread, except current().
class RankLanes {
 public:
  /// Each thread calls `on_thread` first. `timeout`, of every operation, is read when a thread is made.
  RankLanes(HostObject& host, const RankDevices& devices, const std::chrono::nanoseconds& timeout,
            Lane::Task on_thread);

  RankLane& first() const { return *lanes_.front(); }  ///< the default one
  size_t size() const { return lanes_.size(); }
  RankLane& operator[](size_t index) const { return *lanes_[index]; }
  /// Returns the lane that runs on the calling thread, or null. For [main] or a lane.
  RankLane* current() const;

  /// Starts the default lane on parts of the world. Collective.
  void start(RankComms& comms);
  bool has(std::string_view name) const;
  /// Returns the index of the lane of this name. Makes the lane if it does not exist. Collective.
  uint32_t named(const std::string& name, RankComms& comms);
  /// Throws UserError while a lane has tasks: `call` needs all ranks at the same point.
  void require_idle(const std::string& call) const;
  bool are_idle() const;
  /// Calls a function of each lane that runs, as &Lane::drain.
  void each(void (Lane::*call)()) const;
  /// Returns how often threads have waited for each lane, the default one first.
  std::vector<std::pair<std::string, uint64_t>> waits() const;

 private:
  HostObject& host_;
  RankDevices devices_;
  const std::chrono::nanoseconds& timeout_;
  Lane::Task on_thread_;
  std::vector<std::unique_ptr<RankLane>> lanes_;

  std::unique_ptr<Lane> make_thread(const std::string& name);
};

}  // namespace cohort::host
