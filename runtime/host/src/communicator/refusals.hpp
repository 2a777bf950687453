// Operations that are refused, which have sent nothing, so that their lane stays usable.
#pragma once

#include <cohort/api/host.h>
#include <cohort/host/host_object.hpp>

namespace cohort::host {

inline bool is_refusal(cohort_status status) {
  return status == COHORT_INVALID_ARGUMENT || status == COHORT_UNIMPLEMENTED;
}

/// Returns the status of a part of an operation. Behind the first part, which has sent something, a refusal becomes
/// COHORT_INTERNAL, with the message that was left for it.
inline cohort_status status_of_part(HostObject& host, cohort_status status, bool is_first) {
  if (is_first || !is_refusal(status)) return status;
  host.leave_message(COHORT_INTERNAL, host.take_message(status));
  return COHORT_INTERNAL;
}

}  // namespace cohort::host
