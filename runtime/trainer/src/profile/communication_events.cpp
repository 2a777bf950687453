#include "profile/communication_events.hpp"

#include <cohort/sdk/dtype.hpp>

#include <nlohmann/json.hpp>

namespace cohort {

CommunicationEvents::CommunicationEvents(Runtime& runtime, EventLog& log) : runtime_(runtime), log_(log) {
  runtime_.observe(this);
}

CommunicationEvents::~CommunicationEvents() {
  runtime_.observe(nullptr);
}

void CommunicationEvents::operation_ended(const std::string& communicator, const host::OperationRecord& record) {
  const uint64_t element = record.dtype == 0 ? 1 : sdk::size_of(record.dtype);
  nlohmann::ordered_json arguments{{"communicator", communicator}, {"bytes", record.count * element}};
  if (record.purpose) arguments["purpose"] = *record.purpose;
  log_.add(EventLog::Kind::kOperation, record.operation, {record.begun_ns, record.ended_ns}, arguments.dump());
}

void CommunicationEvents::bucket_reduced(const host::BucketRecord& record) {
  const nlohmann::ordered_json arguments{
      {"bucket", record.index}, {"bytes", record.nbytes}, {"purpose", *record.purpose}};
  log_.add(EventLog::Kind::kBucket, "bucket " + std::to_string(record.index), {record.begun_ns, record.ended_ns},
           arguments.dump());
}

}  // namespace cohort
