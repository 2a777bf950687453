#include <cohort/host/accelerator_names.hpp>

#include "selection/names.hpp"

namespace cohort::host {

bool needs_no_device(std::string_view name) {
  return name == kFallbackAccelerator;
}

}  // namespace cohort::host
