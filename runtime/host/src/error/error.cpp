#include <cohort/host/error.hpp>

#include <array>
#include <cstddef>

namespace cohort::host {
namespace {

constexpr std::array kStatusNames{
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};
static_assert(kStatusNames.size() == COHORT_UNAUTHENTICATED + 1);

}  // namespace

std::string status_name(cohort_status status) {
  if (status < 0 || status > COHORT_UNAUTHENTICATED) return "status " + std::to_string(status);
  return kStatusNames[static_cast<std::size_t>(status)];
}

void throw_status(cohort_status status, const std::string& message) {
  switch (status) {
    case COHORT_INVALID_ARGUMENT:
    case COHORT_FAILED_PRECONDITION:
      throw UserError(message);
    case COHORT_DEADLINE_EXCEEDED:
    case COHORT_UNAVAILABLE:
    case COHORT_ABORTED:
      throw PeerFailed(message);
    default:
      throw TrainingFailed(message);
  }
}

}  // namespace cohort::host
