#include "plugin_host/process_traits.hpp"

#include <cfenv>
#include <clocale>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <sys/stat.h>
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

mode_t current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

std::vector<void (*)(int)> current_handlers() {
  std::vector<void (*)(int)> handlers;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    handlers.push_back(::sigaction(number, nullptr, &action) == 0 ? action.sa_handler : SIG_DFL);
  }
  return handlers;
}

std::ptrdiff_t count_threads() {
#if defined(__SANITIZE_THREAD__)
  return 0;  // ThreadSanitizer starts a thread of its own whenever it likes
#else
  std::error_code ignored;
  const std::filesystem::directory_iterator threads("/proc/self/task", ignored);
  return std::distance(begin(threads), end(threads));
#endif
}

}  // namespace

ProcessTraits::ProcessTraits()
    : environment_(process_environment()),
      umask_(current_umask()),
      floating_point_(floating_point_mode()),
      signal_handlers_(current_handlers()) {
  const char* const locale = std::setlocale(LC_ALL, nullptr);
  locale_ = locale ? locale : "";
  std::error_code ignored;
  threads_ = count_threads();
  folder_ = std::filesystem::current_path(ignored).string();
}

const char* ProcessTraits::changed_in(const ProcessTraits& later) const {
  if (later.locale_ != locale_) return "the locale";
  if (later.folder_ != folder_) return "the working directory";
  if (later.environment_ != environment_) return "the environment";
  if (later.umask_ != umask_) return "the umask";
  if (later.signal_handlers_ != signal_handlers_) return "signal handlers";
  if (later.floating_point_ != floating_point_) return "the floating-point mode";
  return later.threads_ > threads_ ? "the number of threads" : nullptr;
}

}  // namespace cohort::host
