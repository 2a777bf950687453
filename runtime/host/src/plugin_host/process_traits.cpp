#include "plugin_host/process_traits.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <cohort/host/options.hpp>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace cohort::host {
namespace {

unsigned floating_point_mode() {
#if defined(__SSE__)
  constexpr unsigned kExceptionFlags = 0x3f;  // say what has happened, not how to compute
  return _mm_getcsr() & ~kExceptionFlags;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

/// Returns the value of a line of /proc/self/status, or "". umask() could not be asked without a change, which another
/// thread would see.
std::string status_of(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return "";
}

std::vector<void (*)(int)> current_handlers() {
  std::vector<void (*)(int)> handlers;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    handlers.push_back(::sigaction(number, nullptr, &action) == 0 ? action.sa_handler : SIG_DFL);
  }
  return handlers;
}

bool has_one_thread() {
#if defined(__SANITIZE_THREAD__)
  return false;  // ThreadSanitizer starts a thread of its own whenever it likes
#else
  return status_of("Threads:") == "\t1";
#endif
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

std::vector<int> open_descriptors() {
  constexpr int kHighest = 1024;
  std::vector<int> open;
  for (int descriptor = 0; descriptor < kHighest; ++descriptor) {
    if (is_open(descriptor)) open.push_back(descriptor);
  }
  return open;
}

}  // namespace

ProcessTraits::ProcessTraits()
    : environment_(process_environment()),
      umask_(status_of("Umask:")),
      floating_point_(floating_point_mode()),
      signal_handlers_(current_handlers()),
      descriptors_(open_descriptors()) {
  const char* const locale = std::setlocale(LC_ALL, nullptr);
  locale_ = locale ? locale : "";
  std::error_code ignored;
  has_one_thread_ = has_one_thread();
  folder_ = std::filesystem::current_path(ignored).string();
}

std::string ProcessTraits::harm_since(const ProcessTraits& before) const {
  const auto is_closed = [&](int descriptor) {
    return (before.has_one_thread_ || descriptor <= STDERR_FILENO) && !is_open(descriptor);
  };
  const auto closed = std::ranges::find_if(before.descriptors_, is_closed);
  if (closed != before.descriptors_.end()) return "closes files (descriptor " + std::to_string(*closed) + ")";
  const char* const changed = changed_since(before);
  return changed ? std::string("changes ") + changed : "";
}

const char* ProcessTraits::changed_since(const ProcessTraits& before) const {
  if (before.locale_ != locale_) return "the locale";
  if (before.folder_ != folder_) return "the working directory";
  if (before.environment_ != environment_) return "the environment";
  if (before.umask_ != umask_ && !before.umask_.empty() && !umask_.empty()) return "the umask";
  if (before.signal_handlers_ != signal_handlers_) return "signal handlers";
  if (before.floating_point_ != floating_point_) return "the floating-point mode";
  return before.has_one_thread_ && !has_one_thread_ ? "the number of threads" : nullptr;
}

}  // namespace cohort::host
