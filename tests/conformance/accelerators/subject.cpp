#include "subject.hpp"

#include <cohort/host/error.hpp>

#include "../open_after_trial.hpp"

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
      accelerator_(tried(open_after_trial(plugins_, log_, host::Kind::kAccelerator, arguments.accelerator.name),
                         arguments.completed),
                   host_, arguments.accelerator.options),
      device_(make_device(0)),
      stream_(device_ ? device_->make_stream() : cohort_stream{nullptr, COHORT_DEVICE_CPU, 0}) {
  if (accelerator_.device_type() != stream_.device_type) {
    throw UserError("this suite has memory of device type " + std::to_string(stream_.device_type) +
                    ", but the accelerator computes on device type " + std::to_string(accelerator_.device_type()));
  }
  accelerator_.take_kernels();
}

}  // namespace cohort::conformance
