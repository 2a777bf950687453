// The operators of LibTorch, as events.
#pragma once

#include <cstdint>

#include "profile/event_log.hpp"

namespace cohort {

/// While it lives, each operator that ends in this process, on whatever thread, is added to the log. One at a time.
class OperatorEvents {
 public:
  explicit OperatorEvents(EventLog& log);
  ~OperatorEvents();
  OperatorEvents(const OperatorEvents&) = delete;
  OperatorEvents& operator=(const OperatorEvents&) = delete;

 private:
  uint64_t handle_;
};

}  // namespace cohort
