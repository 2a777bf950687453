// Trying a plugin in a process of its own before it runs in this one.
//
// Constructors and init of a plugin are foreign code: a crash or an endless loop there must end with a sentence, not
// with the program.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

namespace cohort::host {

/// What opening a plugin is at, for the message when it dies there.
enum class OpenStage : char { kLoading, kChecking, kInit, kDone };
using StageReport = std::function<void(OpenStage)>;

/// Runs `open` in a child process without standard streams, and throws PluginRefused where it is ended by a signal,
/// exits, or is not done by the deadline. An exception out of `open` counts as done: it will be thrown in this process
/// too.
void probe_plugin(const std::filesystem::path& file, std::chrono::milliseconds deadline,
                  const std::function<void(const StageReport&)>& open);

}  // namespace cohort::host
