#include "agree.hpp"

#include <string>

namespace cohort::shm {

Outcome outcome_of(const std::function<void()>& part) {
  Outcome outcome{COHORT_OK, {}};
  const auto set = [&](cohort_status status, const char* message) {
    outcome.status = status;
    std::strncpy(outcome.message, message, sizeof outcome.message - 1);
  };
  try {
    part();
  } catch (const sdk::Error& error) {
    set(error.status(), error.what());
  } catch (const std::exception& error) {
    set(COHORT_INTERNAL, error.what());
  }
  return outcome;
}

Outcome heard(Outcome outcome) {
  if (outcome.status < COHORT_OK || outcome.status > COHORT_UNAUTHENTICATED) outcome.status = COHORT_DATA_LOSS;
  outcome.message[sizeof outcome.message - 1] = '\0';
  return outcome;
}

void require_success(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].status == COHORT_OK) continue;
    throw AgreedError(outcomes[rank].status, "on rank " + std::to_string(rank) + ": " + outcomes[rank].message);
  }
}

}  // namespace cohort::shm
