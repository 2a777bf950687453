#include <cohort/host/flight_recorder.hpp>

#include <algorithm>
#include <ctime>
#include <utility>

namespace cohort::host {
namespace {

int64_t time_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string_view group_of(std::string_view name) {
  return name.substr(0, name.find('/'));
}

}  // namespace

// The precise clock would cost more than everything else here; only an observer needs it.
int64_t FlightRecorder::now_ns() const {
  return time_of(is_observed() ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE);
}

void FlightRecorder::name(const cohort_comm* comm, std::string name) {
  const std::lock_guard lock(mutex_);
  Track& track = track_of(comm);
  track.name = std::move(name);
  const auto other = std::ranges::find_if(
      tracks_, [&](const Track& one) { return &one != &track && group_of(one.name) == group_of(track.name); });
  if (other != tracks_.end()) track.purpose = other->purpose;
}

void FlightRecorder::forget(const cohort_comm* comm) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tracks_, [comm](const Track& track) { return track.comm == comm; });
}

void FlightRecorder::set_purpose(const cohort_comm* comm, Purpose purpose) {
  const std::lock_guard lock(mutex_);
  *track_of(comm).purpose = std::move(purpose);
}

FlightRecorder::Purpose FlightRecorder::purpose_of(const cohort_comm* comm) {
  const std::lock_guard lock(mutex_);
  return *track_of(comm).purpose;
}

uint64_t FlightRecorder::begin(const cohort_comm* comm, OperationRecord record) {
  const std::lock_guard lock(mutex_);
  Track& track = track_of(comm);
  record.number = ++track.operations;
  record.purpose = *track.purpose;
  record.begun_ns = now_ns();
  ++moves_;
  if (!std::exchange(has_training_thread_, true)) threads_.push_back({std::this_thread::get_id()});
  add_wait_locked(std::this_thread::get_id(), 1);
  track.ring[record.number % kKept] = std::move(record);
  return track.operations;
}

void FlightRecorder::end(const cohort_comm* comm, uint64_t number, cohort_status status, std::vector<int> peers) {
  const std::lock_guard lock(mutex_);
  ++moves_;
  add_wait_locked(std::this_thread::get_id(), -1);
  Track& track = track_of(comm);
  OperationRecord& record = track.ring[number % kKept];
  record.status = status;
  record.peers = std::move(peers);
  record.ended_ns = now_ns();
  FlightObserver* const observer = observer_.load(std::memory_order_relaxed);
  if (observer && record.begun_ns >= observed_since_ns_) observer->operation_ended(track.name, record);
}

void FlightRecorder::observe(FlightObserver* observer) {
  const std::lock_guard lock(mutex_);
  observed_since_ns_ = time_of(CLOCK_MONOTONIC);
  observer_.store(observer, std::memory_order_relaxed);
}

BucketRecord FlightRecorder::begin_reduction(uint32_t index, uint64_t nbytes, const Purpose& purpose) {
  return {.index = index, .nbytes = nbytes, .purpose = purpose, .begun_ns = time_of(CLOCK_MONOTONIC)};
}

void FlightRecorder::end_reduction(BucketRecord& record) {
  record.ended_ns = time_of(CLOCK_MONOTONIC);
  const std::lock_guard lock(mutex_);
  FlightObserver* const observer = observer_.load(std::memory_order_relaxed);
  if (observer && record.begun_ns >= observed_since_ns_) observer->bucket_reduced(record);
}

std::vector<FlightRecorder::Flight> FlightRecorder::flights() const {
  const std::lock_guard lock(mutex_);
  std::vector<Flight> flights;
  for (const Track& track : tracks_) {
    Flight& flight = flights.emplace_back(Flight{track.name, {}});
    const uint64_t first = track.operations < kKept ? 1 : track.operations - kKept + 1;
    for (uint64_t n = first; n <= track.operations; ++n) flight.operations.push_back(track.ring[n % kKept]);
  }
  return flights;
}

FlightRecorder::Standing FlightRecorder::standing() const {
  const std::lock_guard lock(mutex_);
  const bool at_rest =
      has_training_thread_ && std::ranges::all_of(threads_, [](const Thread& t) { return t.waits > 0; });
  Standing standing{at_rest, moves_, {}, {}};
  for (const Track& track : tracks_) {
    standing.begun.emplace_back(track.name, track.operations);
    const OperationRecord& last = track.ring[track.operations % kKept];
    if (track.operations > 0 && last.ended_ns == 0) standing.running.push_back({track.name, {last}});
  }
  return standing;
}

void FlightRecorder::thread_begins(std::thread::id thread) {
  const std::lock_guard lock(mutex_);
  threads_.push_back({thread});
}

void FlightRecorder::thread_ends(std::thread::id thread) {
  const std::lock_guard lock(mutex_);
  std::erase_if(threads_, [thread](const Thread& one) { return one.id == thread; });
}

void FlightRecorder::add_wait(std::thread::id thread, int change) {
  const std::lock_guard lock(mutex_);
  add_wait_locked(thread, change);
}

void FlightRecorder::add_wait_locked(std::thread::id thread, int change) {
  const auto found = std::ranges::find(threads_, thread, &Thread::id);
  if (found != threads_.end()) found->waits += change;
}

FlightRecorder::Track& FlightRecorder::track_of(const cohort_comm* comm) {
  const auto found = std::ranges::find(tracks_, comm, &Track::comm);
  if (found != tracks_.end()) return *found;
  return tracks_.emplace_back(Track{comm, "unnamed", std::make_shared<Purpose>(), 0, {}});
}

}  // namespace cohort::host
