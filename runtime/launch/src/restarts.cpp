#include <cohort/launch/restarts.hpp>

#include <cohort/host/error.hpp>

namespace cohort::launch {

void Restarts::tell_ranks(std::map<std::string, std::string>& environment) const {
  if (most_ > 0) environment.insert_or_assign("COHORT_MAX_RESTARTS", std::to_string(most_));
}

bool Restarts::take(const RanksEnd& end) {
  const auto is = [&](ExitCode code) { return end.exit_code == static_cast<int>(code); };
  const bool can_help = end.exit_code != 0 && !is(ExitCode::kUserMistake) && !is(ExitCode::kPluginRefused);
  if (!can_help || end.stop_signal != 0 || taken_ == most_) return false;
  ++taken_;
  log_.warning("all ranks are started again (restart " + std::to_string(taken_) + " of " + std::to_string(most_) + ")");
  return true;
}

}  // namespace cohort::launch
