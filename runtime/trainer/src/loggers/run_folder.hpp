// Folders of runs: each new run has one of its own, DIR/version_N, so that no run overwrites another.
#pragma once

#include <filesystem>
#include <string>

namespace cohort {

/// Makes DIR, if it is missing, and in it the folder version_N whose N is the least above all that are there, from 0.
/// Returns it; no other run gets the same one, even if it asks at the same moment. Throws UserError if that fails.
std::filesystem::path make_run_folder(const std::filesystem::path& dir);

/// Returns whether make_run_folder gives a folder this name.
bool is_run_folder_name(const std::string& name);

}  // namespace cohort
