#include "checkpoint/all_or_none.hpp"

#include <c10/util/Exception.h>

#include "checkpoint/manifest.hpp"

namespace cohort {
namespace {

constexpr char kDamaged = 'd', kMistake = 'm', kFailed = 'f';

/// The kind of failure and its message, or nothing.
std::string outcome_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const DamagedCheckpoint& error) {
    return kDamaged + std::string(error.what());
  } catch (const UserError& error) {
    return kMistake + std::string(error.what());
  } catch (const c10::Error& error) {
    return kFailed + std::string(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return kFailed + std::string(error.what());
  }
}

}  // namespace

void all_or_none(Runtime& runtime, const std::function<void()>& work) {
  const auto outcomes = runtime.all_gather(outcome_of(work));
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) continue;
    const std::string message =
        (rank > 0 ? "rank " + std::to_string(rank) + ": " : std::string()) + outcomes[rank].substr(1);
    if (outcomes[rank][0] == kDamaged) throw DamagedCheckpoint(message);
    if (outcomes[rank][0] == kMistake) throw UserError(message);
    throw TrainingFailed(message);
  }
}

}  // namespace cohort
