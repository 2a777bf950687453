// The communication of a rank, as events: the reduction of each bucket, and the operations of collectives.
#pragma once

#include <string>

#include <cohort/host/flight_recorder.hpp>
#include <cohort/runtime.hpp>

#include "profile/event_log.hpp"

namespace cohort {

/// Adds them to the log as long as it lives. One at a time for each runtime.
class CommunicationEvents final : public host::FlightObserver {
 public:
  CommunicationEvents(Runtime& runtime, EventLog& log);
  ~CommunicationEvents() override;
  CommunicationEvents(const CommunicationEvents&) = delete;
  CommunicationEvents& operator=(const CommunicationEvents&) = delete;

  void operation_ended(const std::string& communicator, const host::OperationRecord& record) override;
  void bucket_reduced(const host::BucketRecord& record) override;

 private:
  Runtime& runtime_;
  EventLog& log_;
};

}  // namespace cohort
