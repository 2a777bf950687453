#include "side.hpp"

#include <stdexcept>

namespace cohort::test {
namespace {

char handle = 0;  // what the stream of a device points to

}  // namespace

Side::Side(const cohort_component& component, const std::vector<cohort_key_value>& options, void* native)
    : object_{sizeof(cohort_accelerator), 0, static_cast<const cohort_accelerator_vt*>(component.vtable), nullptr,
              host_.raw()},
      stream_{native, object_.vt->device_type, 0} {
  if (vt().create(a(), options.data(), options.size()) != COHORT_OK) throw std::runtime_error(take_failure());
}

Side::~Side() {
  vt().destroy(a());
}

Side Side::cpu() {
  return Side(component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_ACCELERATOR), {{"isa", "auto"}}, nullptr);
}

Side Side::cuda() {
  return Side(component_of(cohort_plugin_0, COHORT_KIND_ACCELERATOR), {}, &handle);
}

}  // namespace cohort::test
