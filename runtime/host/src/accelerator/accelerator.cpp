#include "accelerator/accelerator.hpp"

#include <algorithm>

#include <cohort/host/option_table.hpp>

#include "given/given_struct.hpp"

namespace cohort::host {

Accelerator::Accelerator(const cohort_component& component, HostObject& host)
    : what_("accelerator '" + std::string(component.name) + "'"),
      host_(host),
      table_(full_copy(*static_cast<const cohort_accelerator_vt*>(component.vtable))),
      accelerator_{sizeof(cohort_accelerator), 0, &table_, nullptr, host.get()} {
  if (!table_.create) return;
  const CheckedOptions options = check_options({component.options, component.num_options}, {}, what_);
  host_.check(table_.create(&accelerator_, options.data(), options.size()), what_ + ", create");
}

void Accelerator::take_kernels() {
  const cohort_kernels_1* const given = table_.kernels ? table_.kernels(&accelerator_) : nullptr;
  if (!given) return;
  constexpr uint32_t kLeast = COHORT_END(cohort_kernels_1, reserved0);
  auto problem = length_problem(given, {given->struct_size, kLeast, sizeof *given}, "cohort_kernels_1");
  if (problem.empty()) problem = reserved_problem(given->reserved0, "cohort_kernels_1");
  if (!problem.empty()) throw PluginRefused(what_ + " " + problem);
  kernels_ = full_copy(*given);
}

Accelerator::~Accelerator() {
  if (table_.destroy) table_.destroy(&accelerator_);
}

int Accelerator::count_devices() {
  int32_t count = 0;
  if (!table_.device_count) return 0;
  host_.check(table_.device_count(&accelerator_, &count), what_ + ", device_count");
  return std::max<int>(0, count);
}

}  // namespace cohort::host
