// What the header of a shared library says before the dynamic linker sees the file.
#pragma once

#include <filesystem>
#include <string>

namespace cohort::host {

/// Empty where the file is a complete ELF shared library for the machine that this program runs on; else what is wrong.
/// The dynamic linker's own words for these are unclear, and it crashes on some cut files.
std::string elf_problem(const std::filesystem::path& file);

}  // namespace cohort::host
