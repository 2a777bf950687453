// A call through the C ABI that failed, as an exception.
#pragma once

#include <stdexcept>
#include <string>

#include <cohort/api/status.h>

namespace cohort::test {

class CallFailed : public std::runtime_error {
 public:
  CallFailed(cohort_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  cohort_status status() const { return status_; }

 private:
  cohort_status status_;
};

/// The status and message of a call that fails; COHORT_OK where it does not.
template <class Call>
CallFailed failure_of(Call&& call) {
  try {
    call();
  } catch (const CallFailed& failed) {
    return failed;
  }
  return {COHORT_OK, ""};
}

}  // namespace cohort::test
