// The variables NCCL_..., as the user has set them. The plugin reads them to say what NCCL will do.
#pragma once

#include <string>

namespace cohort::nccl {

/// Returns "NAME=VALUE, NAME=VALUE"; "" if none is set.
std::string variables_of_nccl();
/// Returns whether the user allows two ranks on one GPU.
bool ranks_may_share_a_gpu();

inline constexpr const char* kAllowRanksOnOneGpu = "NCCL_MULTI_RANK_GPU_ENABLE";

}  // namespace cohort::nccl
