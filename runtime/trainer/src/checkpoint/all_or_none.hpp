// Work of each rank whose outcome all ranks share, so that none goes on alone.
#pragma once

#include <functional>

#include <cohort/runtime.hpp>

namespace cohort {

/// Runs `work`; where it throws on any rank, all ranks throw what the first of them threw, with its rank: a
/// DamagedCheckpoint, a UserError, or for everything else TrainingFailed. Collective; `work` itself is not.
void all_or_none(Runtime& runtime, const std::function<void()>& work);

}  // namespace cohort
