#include "installation.hpp"

#include <string_view>
#include <system_error>

#include <cohort/host/error.hpp>

namespace cohort::cli {

namespace fs = std::filesystem;

Installation installation() {
  if (std::string_view(COHORT_LIBTORCH_VERSION) == "none") {
    throw UserError("cohort: this installation was built without LibTorch and trains nothing; install one that has it");
  }
  std::error_code failure;
  const fs::path command = fs::canonical("/proc/self/exe", failure);
  if (failure) throw UserError("cohort: the file of this program is gone; install cohort again");
  const fs::path own = (command.parent_path() / COHORT_BIN_TO_LIB / "cohort").lexically_normal();
  const fs::path prefix = command.parent_path().parent_path();
  return {command, prefix, own / "libtorch.sh", own / "libtorch", prefix / COHORT_DATA_DIR / "cohort" / "new_project"};
}

}  // namespace cohort::cli
