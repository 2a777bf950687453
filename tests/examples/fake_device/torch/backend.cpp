#include "backend.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace fake {

void open_backend() {
  static void* const library = ::dlopen(FAKE_TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(::dlerror());
  at::set_num_threads(1);
}

}  // namespace fake
