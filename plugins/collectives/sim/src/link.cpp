#include "link.hpp"

namespace cohort::sim {

Link::Link(const Settings& settings, int rank)
    : settings_(settings), rank_(rank), model_(settings.bytes_per_second, settings.latency) {}

Nanoseconds Link::begin_exchange() {
  const uint64_t exchange = ++exchanges_;
  if (settings_.vanishing && settings_.vanishing->rank == rank_ && exchange >= settings_.vanishing->at) {
    has_vanished_ = true;
  }
  return settings_.straggler == rank_ ? settings_.slow : Nanoseconds(0);
}

Nanoseconds Link::leave(Nanoseconds now, uint64_t nbytes) {
  const std::lock_guard lock(mutex_);
  return model_.leave(now, nbytes);
}

Nanoseconds Link::arrive(Nanoseconds at, uint64_t nbytes) {
  const std::lock_guard lock(mutex_);
  return model_.arrive(at, nbytes);
}

}  // namespace cohort::sim
