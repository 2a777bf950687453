#include "rank_lanes.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {
namespace {

constexpr std::chrono::seconds kLaneSlack{30};  // tasks end by their own deadline; this only guards the guard

}  // namespace

RankLanes::RankLanes(HostObject& host, const RankDevices& devices, const std::chrono::nanoseconds& timeout,
                     Lane::Task on_thread)
    : host_(host), devices_(devices), timeout_(timeout), on_thread_(std::move(on_thread)) {
  lanes_.push_back(std::make_unique<RankLane>(RankLane{"default", {}, nullptr}));
}

RankLane* RankLanes::current() const {
  const auto found =
      std::ranges::find_if(lanes_, [](const auto& lane) { return lane->thread && lane->thread->is_current_thread(); });
  return found == lanes_.end() ? nullptr : found->get();
}

void RankLanes::start(RankComms& comms) {
  first().comms = comms.split_roles(first().name, 0);
  first().thread = make_thread(first().name);
}

bool RankLanes::has(std::string_view name) const {
  return std::ranges::find(lanes_, name, &RankLane::name) != lanes_.end();
}

uint32_t RankLanes::named(const std::string& name, RankComms& comms) {
  const auto found = std::ranges::find(lanes_, name, &RankLane::name);
  const auto index = static_cast<uint32_t>(found - lanes_.begin());
  if (found != lanes_.end()) return index;
  require_idle("lane/1.create of '" + name + "'");
  auto made = std::make_unique<RankLane>();
  made->name = name;
  const bool is_alike = !comms.control() || comms.is_same_on_all_ranks(fingerprint(name), "comparing lanes");
  if (!is_alike) {
    throw UserError("lane/1.create: the ranks make different lanes at the same time, this one '" + name +
                    "'; make the same lanes in the same order on all ranks");
  }
  if (comms.world()) made->comms = comms.split_roles(name, index);
  made->thread = make_thread(name);
  lanes_.push_back(std::move(made));
  return index;
}

std::unique_ptr<Lane> RankLanes::make_thread(const std::string& name) {
  auto lane = std::make_unique<Lane>(name, timeout_ + kLaneSlack, &host_, devices_);
  if (!devices_.all().empty()) lane->run(on_thread_);
  return lane;
}

void RankLanes::require_idle(const std::string& call) const {
  if (are_idle()) return;
  throw UserError(call + " while tasks are under way; call it before the first submit or when all tasks are done");
}

bool RankLanes::are_idle() const {
  return std::ranges::none_of(lanes_, [](const auto& lane) { return lane->thread && !lane->thread->is_idle(); });
}

void RankLanes::each(void (Lane::*call)()) const {
  for (const auto& lane : lanes_) {
    if (lane->thread) (*lane->thread.*call)();
  }
}

std::vector<std::pair<std::string, uint64_t>> RankLanes::waits() const {
  std::vector<std::pair<std::string, uint64_t>> waits;
  for (const auto& lane : lanes_) waits.emplace_back(lane->name, lane->thread ? lane->thread->waits() : 0);
  return waits;
}

}  // namespace cohort::host
