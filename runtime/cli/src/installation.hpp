// The files of the installation that this command belongs to. A build tree has the same layout, so that `cohort new`
// and `cohort libtorch` work in both.
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

/// Returns the installation of the running program. Throws UserError if the program's file is gone, or if it was built
/// without LibTorch.
Installation installation();

}  // namespace cohort::cli
