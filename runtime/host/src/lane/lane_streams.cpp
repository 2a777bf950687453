#include <algorithm>
#include <exception>

#include <cohort/host/lane_streams.hpp>

namespace cohort::host {

LaneStreams::LaneStreams(RankDevices devices) : devices_(devices) {
  for (const Device device : devices_.all()) streams_.push_back(devices_.port()->make_stream(device));
}

LaneStreams::Events LaneStreams::here() const {
  Events events;
  for (const Device device : devices_.all()) events.push_back(devices_.port()->record(devices_.current(device)));
  return events;
}

void LaneStreams::follow(const Events& events) const {
  for (size_t i = 0; i < events.size(); ++i) {
    devices_.port()->order(devices_.current(devices_.all()[i]), *events[i]);
  }
}

bool LaneStreams::are_done(const Events& events) {
  return std::ranges::all_of(events, [](const auto& event) { return event->is_done(); });
}

std::vector<cohort_stream> LaneStreams::enter() const {
  std::vector<cohort_stream> before;
  try {
    for (const cohort_stream& stream : streams_) {
      before.push_back(devices_.current({stream.device_type, stream.device_index}));
      devices_.port()->set_current(stream);
    }
  } catch (...) {
    leave(before);
    throw;
  }
  return before;
}

void LaneStreams::leave(const std::vector<cohort_stream>& before) const {
  std::exception_ptr failure;
  for (const cohort_stream& stream : before) {
    try {
      devices_.port()->set_current(stream);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void LaneStreams::follow_lane() const {
  Events events;
  for (const cohort_stream& stream : streams_) events.push_back(devices_.port()->record(stream));
  follow(events);
}

}  // namespace cohort::host
