#include <cohort/host/error.hpp>

#include <cxxabi.h>

#include <atomic>
#include <boost/core/demangle.hpp>
#include <cstddef>
#include <iterator>
#include <typeinfo>

namespace cohort::host {
namespace {

constexpr const char* kStatusNames[] = {
    "OK",        nullptr,           nullptr,         "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", nullptr,           nullptr,         "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED", "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};
static_assert(std::size(kStatusNames) == COHORT_UNAUTHENTICATED + 1);

constinit std::atomic<void (*)()> translation{nullptr};

}  // namespace

std::string status_name(cohort_status status) {
  const auto index = static_cast<std::size_t>(status);
  const bool is_named = index < std::size(kStatusNames) && kStatusNames[index];
  return is_named ? kStatusNames[index] : "status " + std::to_string(status);
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

void translate_exceptions_with(void (*translate)()) {
  translation.store(translate);
}

void rethrow_translated() {
  if (auto* const translate = translation.load()) translate();
  throw;
}

std::string name_of_unknown_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  return type ? "an exception of type " + boost::core::demangle(type->name()) : "an exception of an unknown type";
}

}  // namespace cohort::host
