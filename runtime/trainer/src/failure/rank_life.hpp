// What every rank does around its work, whether its process was executed or forked.
#pragma once

#include <filesystem>
#include <functional>

#include <cohort/runtime.hpp>

namespace cohort {

/// Connects the ranks, makes them known to each other, runs `work`, shuts down, and gives the exit code that `work`
/// gives. What is thrown is explained together with the other ranks, reported, and becomes the exit code. Collective.
/// `error_file`: see report_failure.
int run_rank(Runtime& runtime, const std::filesystem::path& error_file, const std::function<int()>& work);

}  // namespace cohort
