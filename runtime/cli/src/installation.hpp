// Where this command is installed, and what lies beside it. The build tree is laid out in the same way.
#pragma once

#include <filesystem>

namespace cohort::cli {

struct Installation {
  std::filesystem::path command;      ///< PREFIX/bin/cohort, without links
  std::filesystem::path prefix;       ///< what find_package looks into
  std::filesystem::path script;       ///< of `cohort libtorch`
  std::filesystem::path libtorch;     ///< where that script brings LibTorch
  std::filesystem::path new_project;  ///< what `cohort new` copies
};

/// Throws UserError where the file of this program is gone, or the runtime was built without LibTorch.
Installation installation();

}  // namespace cohort::cli
