// Work that runs foreign code: done in a child process, so that a crash or an endless loop there is only a message
// here.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace cohort::host {

/// Runs `work`, which must not throw, in a child process and returns its result. The child's standard output is
/// discarded, its standard error passed on when it has ended. Throws PluginRefused if the child crashes, exits by
/// itself, or is not done by the deadline, when it is killed; the message is the error on its last line, or names
/// `what`.
std::string in_child(const std::string& what, std::chrono::milliseconds deadline,
                     const std::function<std::string()>& work);

}  // namespace cohort::host
