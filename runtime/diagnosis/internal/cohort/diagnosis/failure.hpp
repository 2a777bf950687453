// A failure of this rank, as the user reads it.
#pragma once

#include <string>

namespace cohort {

struct Failure {
  int exit_code;
  std::string message;
  std::string type;  ///< "UserError", for torchrun's report
};

}  // namespace cohort
