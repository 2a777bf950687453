#include "plugin_host/shared_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <string_view>
#include <system_error>

#include "plugin_host/refuse.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;

// Boost wraps the dynamic linker's words in its own and in a meaningless error code:
// "boost::dll::shared_library::load() failed (dlerror system message: FILE: REASON): Bad file descriptor".
std::string linker_reason(std::string_view text, const fs::path& file) {
  constexpr std::string_view kBefore = "dlerror system message: ";
  const std::size_t before = text.find(kBefore);
  if (before != std::string_view::npos) text.remove_prefix(before + kBefore.size());
  text = text.substr(0, text.rfind("): "));
  const std::string own_name = file.string() + ": ";
  if (text.starts_with(own_name)) text.remove_prefix(own_name.size());
  return std::string(text);
}

}  // namespace

SharedLibrary::SharedLibrary(const fs::path& file) {
  using boost::dll::load_mode::type;
  const auto mode = static_cast<type>(boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  try {
    library_.load(file, mode);
  } catch (const std::system_error& error) {
    refuse(file, "the dynamic linker cannot open it (" + linker_reason(error.what(), file) +
                     "); link what it needs into it or install that library");
  }
  // A second reference that cannot be dropped: the destructor of library_ closes the first one.
  ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
}

const void* SharedLibrary::find(const char* symbol) const {
  return library_.has(symbol) ? &library_.get<const unsigned char>(symbol) : nullptr;
}

fs::path SharedLibrary::foreign_home(const void* address) const {
  Dl_info info{};
  void* home = nullptr;
  void* own = nullptr;
  const bool known =
      ::dladdr1(address, &info, &home, RTLD_DL_LINKMAP) != 0 && ::dlinfo(library_.native(), RTLD_DI_LINKMAP, &own) == 0;
  if (!known) return "an unknown library";
  return home == own ? fs::path() : fs::path(info.dli_fname);
}

}  // namespace cohort::host
