#include "subject.hpp"

#include <cohort/host/error.hpp>

namespace cohort::conformance {
namespace {

host::LogSettings warnings_only() {
  host::LogSettings settings;
  settings.level = host::LogLevel::kWarning;
  return settings;
}

// Returns the component. With `completed` it has no kernels of its own, so that the host's are tried.
cohort_component tried(const cohort_component& component, bool completed) {
  static cohort_accelerator_vt table;
  cohort_component result = component;
  if (!completed) return result;
  table = *static_cast<const cohort_accelerator_vt*>(component.vtable);
  table.kernels = nullptr;
  result.vtable = &table;
  return result;
}

}  // namespace

Subject::Subject(const Arguments& arguments)
    : log_(warnings_only()),
      host_(log_),
      plugins_(arguments.search, log_),
      accelerator_(tried(plugins_.open(host::Kind::kAccelerator, arguments.accelerator.name), arguments.completed),
                   host_, arguments.accelerator.options),
      stream_{nullptr, accelerator_.device_type(), 0} {
  if (accelerator_.device_type() != COHORT_DEVICE_CPU) {
    throw UserError("accelerator_suite has no memory of device type " + std::to_string(accelerator_.device_type()) +
                    "; it tries accelerators of CPU tensors");
  }
  accelerator_.take_kernels();
}

}  // namespace cohort::conformance
