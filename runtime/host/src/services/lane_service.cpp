// Service lane/1.
#include <algorithm>
#include <array>
#include <string>

#include <cohort/host/error.hpp>
#include <cohort/host/spec.hpp>

#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"
#include "services.hpp"

namespace cohort::host {
namespace {

constexpr std::array<std::string_view, 4> kOwnNames{"default", "control", "user", "world"};

RankLane& lane_at(const cohort_host* host, uint32_t index) {
  const RankLanes& lanes = rank_of(host).lanes;
  if (index >= lanes.size())
    throw UserError("lane/1: there is no lane " + std::to_string(index) + "; create() gives numbers");
  if (!lanes[index].thread) throw UserError("lane/1: there are no lanes before the ranks are connected");
  return lanes[index];
}

cohort_status create(const cohort_host* host, const char* name, uint32_t* lane) noexcept {
  return guarded(host, [&] {
    const std::string_view given = name ? name : "";
    if (!is_plugin_name(given) || std::ranges::count(kOwnNames, given) > 0) {
      throw UserError("lane/1.create: a lane cannot be called '" + std::string(given) + "'");
    }
    RankState& state = rank_of(host);
    if (!state.training.model || (!state.training.may_make_lanes && !state.lanes.has(given))) {
      throw UserError("lane/1.create: call it in configure_model or layout_ready, which all ranks enter");
    }
    *lane = state.lanes.named(std::string(given), state.comms);
    return COHORT_OK;
  });
}

cohort_status submit(const cohort_host* host, uint32_t index, cohort_lane_task task, void* arg,
                     uint64_t* ticket) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    RankLane& lane = lane_at(host, index);
    const RankLane* const caller = state.lanes.current();  // whose bucket it is for
    const auto purpose = caller && caller->comms.world ? state.host.recorder().purpose_of(caller->comms.world)
                                                       : std::make_shared<const std::string>("task of the strategy");
    auto in_lane = [&state, &lane, task, arg, purpose] {
      if (lane.comms.world) state.host.recorder().set_purpose(lane.comms.world, purpose);
      state.host.check(task(arg), "lane '" + lane.name + "', " + *purpose);
    };
    Lane& thread = *lane.thread;
    *ticket = state.comms.set().needs_one_order() ? thread.submit_in_turn(std::move(in_lane))
                                                  : thread.submit(std::move(in_lane));
    return COHORT_OK;
  });
}

cohort_status wait(const cohort_host* host, uint32_t index, uint64_t ticket, int64_t timeout_ns,
                   uint32_t* done) noexcept {
  return guarded(host, [&] {
    Lane& lane = *lane_at(host, index).thread;
    if (timeout_ns < 0) lane.wait(ticket);
    const bool is_done = timeout_ns < 0 || lane.wait_for(ticket, std::chrono::nanoseconds(timeout_ns));
    if (done) *done = is_done ? 1 : 0;
    return COHORT_OK;
  });
}

constexpr cohort_lane_1 kLane{.create = create, .submit = submit, .wait = wait};

}  // namespace

const cohort_lane_1& lane_service() {
  return kLane;
}

}  // namespace cohort::host
