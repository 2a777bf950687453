#include "loaded_libraries.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

namespace cohort::mpi {

namespace {

int add_name(dl_phdr_info* info, std::size_t, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  return 0;
}

/// The file that defines MPI as `object` and what it links see it; "" where they do not.
std::string library_of(const std::string& object) {
  void* const handle = ::dlopen(object.empty() ? nullptr : object.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return {};
  Dl_info info{};
  const void* const symbol = ::dlsym(handle, "PMPI_Init_thread");
  const bool is_known = symbol && ::dladdr(symbol, &info) != 0 && info.dli_fname;
  std::string name = is_known ? info.dli_fname : "";
  ::dlclose(handle);
  return name;
}

}  // namespace

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> objects;
  ::dl_iterate_phdr(add_name, &objects);  // names first: dlopen inside of it would wait for its own lock
  std::vector<std::string> libraries;
  for (const std::string& object : objects) {
    std::string library = library_of(object);
    if (library.empty() || std::find(libraries.begin(), libraries.end(), library) != libraries.end()) continue;
    libraries.push_back(std::move(library));
  }
  return libraries;
}

}  // namespace cohort::mpi
