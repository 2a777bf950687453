// Errors of a plugin: thrown inside it, turned into a status code and a message before they reach the host.
//
// Every function that the SDK puts into a table catches all exceptions, so plugin code may throw. Threads: any.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <cohort/api/host.h>

namespace cohort::sdk {
inline namespace v1 {

/// An exception that makes the plugin's call fail with `status`. The message is one sentence: the problem, its place
/// and its remedy. An empty message keeps the message of a failed call to the host.
class Error : public std::exception {
 public:
  /// Makes an error. `peers`: ranks that a collective's call waited for, as for host->fail_peers.
  Error(cohort_status status, std::string message, std::vector<int32_t> peers = {})
      : status_(status), message_(std::move(message)), peers_(std::move(peers)) {}
  cohort_status status() const noexcept { return status_; }
  const std::vector<int32_t>& peers() const noexcept { return peers_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  cohort_status status_;
  std::string message_;
  std::vector<int32_t> peers_;
};

inline Error invalid_argument(std::string message) {
  return {COHORT_INVALID_ARGUMENT, std::move(message)};
}
inline Error failed_precondition(std::string message) {
  return {COHORT_FAILED_PRECONDITION, std::move(message)};
}

/// Throws if a call to the host or to an inherited function has failed. Keeps the message of that call.
inline void check(cohort_status status) {
  if (status != COHORT_OK) throw Error(status, {});
}

namespace detail {

inline cohort_status report(const cohort_host* host, cohort_status status, const char* message,
                            const std::vector<int32_t>& peers = {}) noexcept {
  if (!host || message[0] == '\0') return status;
  return peers.empty() ? host->fail(host, status, message)
                       : host->fail_peers(host, status, peers.data(), peers.size(), message);
}

/// Runs `body`. Turns an exception into a status and a message.
template <class Body>
cohort_status guard(const cohort_host* host, Body&& body) noexcept {
  try {
    body();
    return COHORT_OK;
  } catch (const Error& error) {
    return report(host, error.status() == COHORT_OK ? COHORT_INTERNAL : error.status(), error.what(), error.peers());
  } catch (const std::bad_alloc&) {
    return report(host, COHORT_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& error) {
    return report(host, COHORT_INTERNAL, error.what());
  } catch (...) {
    return report(host, COHORT_INTERNAL, "an exception that is not a std::exception");
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
