// The exception barrier of the services: what the host throws becomes a status for the plugin that called.
#pragma once

#include <exception>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/sdk/error.hpp>

namespace cohort::host {

/// The failure of another rank as a collective reported it. A collective that is made of others passes the status on.
struct ReportedFailure : PeerFailed {
  ReportedFailure(cohort_status reported, const std::string& message) : PeerFailed(message), status(reported) {}
  cohort_status status;  ///< COHORT_DEADLINE_EXCEEDED, COHORT_UNAVAILABLE or COHORT_ABORTED
};

inline cohort_status status_of(const Error& error) {
  if (const auto* const failed = dynamic_cast<const ReportedFailure*>(&error)) return failed->status;
  switch (error.code()) {
    case ExitCode::kUserMistake:
    case ExitCode::kPluginRefused:
      return COHORT_INVALID_ARGUMENT;
    case ExitCode::kPeerFailed:
      return COHORT_UNAVAILABLE;
    default:
      return COHORT_INTERNAL;
  }
}

/// Keeps an error of the host as it is, because it may hold a table of several lines. host->fail, which is for plugins,
/// would join the lines.
inline cohort_status keep(const cohort_host* host, const Error& error) noexcept {
  const cohort_status status = status_of(error);
  try {
    HostObject::of(host).leave_message(status, error.what());
  } catch (...) {
    // There is no memory for the message; the status is returned without it.
  }
  return status;
}

/// Leaves the message of the current exception with the host, and returns its status. Call in a catch block.
inline cohort_status keep_current(const cohort_host* host) noexcept {
  try {
    rethrow_translated();
  } catch (const Error& error) {
    return keep(host, error);
  } catch (const sdk::Error& error) {
    return host->fail(host, error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return host->fail(host, COHORT_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& error) {
    return host->fail(host, COHORT_INTERNAL, error.what());
  } catch (...) {
    return host->fail(host, COHORT_INTERNAL, name_of_unknown_exception().c_str());
  }
}

template <class Call>
cohort_status guarded(const cohort_host* host, Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return keep_current(host);
  }
}

}  // namespace cohort::host
