#include <cohort/diagnosis/operations.hpp>

#include <ctime>
#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/sdk/dtype.hpp>

namespace cohort {
namespace {

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string reduce_name(int32_t reduce) {
  constexpr const char* kNames[] = {"", " sum", " mean", " min", " max", " product", " bit-or"};
  return reduce >= COHORT_REDUCE_SUM && reduce <= COHORT_REDUCE_BIT_OR ? kNames[reduce] : " ?";
}

// What has to be equal on all ranks, and no more.
std::string call_of(const host::OperationRecord& record) {
  std::string text = record.operation;
  if (record.dtype == 0) return text;
  if (record.reduce != 0) text += reduce_name(record.reduce);
  text += std::string(" of ") + sdk::name_of(record.dtype);
  if (record.count != 0) text += "[" + std::to_string(record.count) + "]";
  const std::string name = record.operation;
  if (name == "broadcast" || name == "reduce") text += " with root " + std::to_string(record.root);
  return text;
}

Operation operation_of(const std::string& communicator, const host::OperationRecord& record, double boot) {
  const auto time = [boot](int64_t ns) { return ns == 0 ? 0 : boot + static_cast<double>(ns) * 1e-9; };
  Operation operation{communicator,
                      record.number,
                      call_of(record),
                      record.purpose ? *record.purpose : "",
                      record.ended_ns == 0 ? "running" : host::status_name(record.status),
                      time(record.begun_ns),
                      time(record.ended_ns),
                      record.operation,
                      record.dtype == 0 ? "" : sdk::name_of(record.dtype),
                      record.count,
                      record.count,
                      record.peers};
  if (record.dtype != 0) operation.bytes *= sdk::size_of(record.dtype);
  return operation;
}

}  // namespace

std::vector<Operation> operations_of(const std::vector<host::FlightRecorder::Flight>& flights, size_t most) {
  const double boot = seconds(CLOCK_REALTIME) - seconds(CLOCK_MONOTONIC);
  std::vector<Operation> operations;
  for (const auto& flight : flights) {
    const size_t size = flight.operations.size();
    for (size_t i = size > most ? size - most : 0; i < size; ++i) {
      operations.push_back(operation_of(flight.communicator, flight.operations[i], boot));
    }
  }
  return operations;
}

bool has_purpose(const Operation& operation) {
  return !operation.purpose.empty() && operation.purpose != operation.name;
}

std::string describe(const Operation& operation) {
  return operation.call + ", #" + std::to_string(operation.number) + " of " + operation.communicator +
         (has_purpose(operation) ? ", for " + operation.purpose : "");
}

nlohmann::ordered_json flight_of(const std::vector<Operation>& operations) {
  auto json = nlohmann::ordered_json::array();
  for (const Operation& one : operations) {
    json.push_back({{"communicator", one.communicator},
                    {"number", one.number},
                    {"operation", one.name},
                    {"dtype", one.dtype},
                    {"count", one.count},
                    {"bytes", one.bytes},
                    {"call", one.call},
                    {"purpose", one.purpose},
                    {"begun", one.begun},
                    {"ended", one.ended == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(one.ended)},
                    {"status", one.status},
                    {"waited_for", one.peers}});
  }
  return json;
}

}  // namespace cohort
