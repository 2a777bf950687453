// Lanes: tasks that communicate while the step thread computes.
//
//   sdk::LaneTask average_{[this] { host().world().all_reduce(...); }};     // a member: outlives its last run
//   const auto ticket = lane.submit(average_);                              // [step]
//   ...
//   lane.wait(ticket);
//
// A Lane is a borrowed handle, valid until the end of the run: copy it freely. Threads: [main], [step] and tasks of
// other lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include <cohort/api/host/lane.h>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// A task for any number of submissions. It must outlive its last run. An exception ends the lane.
class LaneTask {
 public:
  explicit LaneTask(std::function<void()> body) : body_(std::move(body)) {}
  LaneTask(const LaneTask&) = delete;
  LaneTask& operator=(const LaneTask&) = delete;

 private:
  friend class Lane;
  static cohort_status run(void* self) noexcept {
    auto& task = *static_cast<LaneTask*>(self);
    return detail::guard(task.host_, task.body_);
  }

  std::function<void()> body_;
  const cohort_host* host_ = nullptr;
};

class Lane {
 public:
  using Ticket = uint64_t;

  Lane(const cohort_host* host, const cohort_lane_1& table, uint32_t index)
      : host_(host), table_(&table), index_(index) {}

  /// Returns the number of the lane, for Comm::split.
  uint32_t index() const { return index_; }

  Ticket submit(LaneTask& task) const {
    task.host_ = host_;
    Ticket ticket = 0;
    check(table_->submit(host_, index_, &LaneTask::run, &task, &ticket));
    return ticket;
  }
  /// Blocks until the ticket's task and all tasks before it have returned. Throws the error of a failed task.
  void wait(Ticket ticket) const { check(table_->wait(host_, index_, ticket, -1, nullptr)); }
  /// Blocks for at most `timeout_ns` ns. Returns whether the ticket's task, all tasks before it, and the device work
  /// that they enqueued are done.
  bool wait_for(Ticket ticket, int64_t timeout_ns) const {
    uint32_t done = 0;
    check(table_->wait(host_, index_, ticket, timeout_ns < 0 ? 0 : timeout_ns, &done));
    return done != 0;
  }
  bool is_done(Ticket ticket) const { return wait_for(ticket, 0); }

 private:
  const cohort_host* host_;
  const cohort_lane_1* table_;
  uint32_t index_;
};

}  // namespace v1
}  // namespace cohort::sdk
