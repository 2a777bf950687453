#include "environment/variables.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace cohort::nccl {

std::string variables_of_nccl() {
  std::string text;
  for (char** one = ::environ; one && *one; ++one) {
    if (std::strncmp(*one, "NCCL_", 5) == 0) text += (text.empty() ? "" : ", ") + std::string(*one);
  }
  return text;
}

bool ranks_may_share_a_gpu() {
  const char* const value = std::getenv(kAllowRanksOnOneGpu);
  return value && std::strcmp(value, "1") == 0;
}

}  // namespace cohort::nccl
