// The exception barrier of the services: what the host throws becomes a status for the plugin that called.
#pragma once

#include <exception>

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {

inline cohort_status status_of(const Error& error) {
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

template <class Call>
cohort_status guarded(const cohort_host* host, Call&& call) noexcept {
  try {
    return call();
  } catch (const Error& error) {
    return host->fail(host, status_of(error), error.what());
  } catch (const std::bad_alloc&) {
    return host->fail(host, COHORT_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& error) {
    return host->fail(host, COHORT_INTERNAL, error.what());
  }
}

}  // namespace cohort::host
