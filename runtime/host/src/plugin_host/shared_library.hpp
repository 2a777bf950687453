// A shared library in this process. The only place that knows Boost.DLL.
//
// What was opened stays mapped for ever: threads and callbacks of a plugin may outlive whoever opened it.
#pragma once

#include <filesystem>

#include <boost/dll/shared_library.hpp>

namespace cohort::host {

class SharedLibrary {
 public:
  /// Opens an absolute path; runs the library's constructors. Throws PluginRefused with the dynamic linker's reason.
  explicit SharedLibrary(const std::filesystem::path& file);

  /// The address of a symbol in this library or the libraries that it brings; null where there is none.
  const void* find(const char* symbol) const;
  /// The file that holds the address, where that is not this library; empty where it is.
  std::filesystem::path foreign_home(const void* address) const;

 private:
  boost::dll::shared_library library_;
};

}  // namespace cohort::host
