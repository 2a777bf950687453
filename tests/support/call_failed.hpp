// A call through the C ABI that failed, as an exception.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cohort/api/status.h>

namespace cohort::test {

class CallFailed : public std::runtime_error {
 public:
  CallFailed(cohort_status status, const std::string& message, std::vector<int> peers = {})
      : std::runtime_error(message), status_(status), peers_(std::move(peers)) {}
  cohort_status status() const { return status_; }
  /// The ranks that were waited for, as the call has reported them.
  const std::vector<int>& peers() const { return peers_; }

 private:
  cohort_status status_;
  std::vector<int> peers_;
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
