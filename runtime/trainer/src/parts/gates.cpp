#include "parts/gates.hpp"

#include <utility>

namespace cohort {

Gates::Gates(std::vector<uint32_t> in_flight) : parts_(in_flight.size()) {
  for (size_t part = 0; part < parts_.size(); ++part) parts_[part].most_in_flight = in_flight[part];
}

void Gates::begin(size_t pieces, std::function<void(size_t part)> complete) {
  pieces_ = pieces;
  is_closed_ = false;
  complete_ = std::move(complete);
  for (Part& part : parts_) part = Part{.most_in_flight = part.most_in_flight};
}

void Gates::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& may_go) {
  changed_.wait(lock, [&] { return is_closed_ || may_go(); });
  if (is_closed_) throw GatesClosed();
}

void Gates::enter_forward(size_t number, size_t piece) {
  std::unique_lock lock(mutex_);
  Part& part = parts_[number];
  wait(lock, [&] {
    const bool has_room = part.most_in_flight == 0 || part.in_flight < part.most_in_flight;
    return !part.is_busy && part.next_forward == piece && has_room && part.waiting_backward == 0;
  });
  part.is_busy = true;
  ++part.in_flight;
  ++part.next_forward;
}

void Gates::leave_forward(size_t number) {
  {
    const std::lock_guard lock(mutex_);
    parts_[number].is_busy = false;
  }
  changed_.notify_all();
}

void Gates::enter_backward(size_t number, size_t piece) {
  std::unique_lock lock(mutex_);
  Part& part = parts_[number];
  wait(lock, [&] { return part.next_backward == piece; });
  ++part.waiting_backward;
  wait(lock, [&] { return !part.is_busy; });
  --part.waiting_backward;
  part.is_busy = true;
}

void Gates::leave_backward(size_t number) {
  bool is_complete = false;
  {
    const std::lock_guard lock(mutex_);
    Part& part = parts_[number];
    part.is_busy = false;
    --part.in_flight;
    is_complete = ++part.next_backward == pieces_;
  }
  changed_.notify_all();
  if (is_complete) complete_(number);
}

void Gates::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace cohort
