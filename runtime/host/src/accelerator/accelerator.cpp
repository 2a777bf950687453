#include "accelerator/accelerator.hpp"

#include <algorithm>
#include <cstring>

#include <cohort/host/option_table.hpp>

namespace cohort::host {

Accelerator::Accelerator(const cohort_component& component, HostObject& host)
    : what_("accelerator '" + std::string(component.name) + "'"),
      host_(host),
      accelerator_{&table_, nullptr, host.get()} {
  const auto& given = *static_cast<const cohort_accelerator_vt*>(component.vtable);
  std::memcpy(&table_, &given, std::min<size_t>(given.struct_size, sizeof table_));
  if (!table_.create) return;
  const CheckedOptions options = check_options({component.options, component.num_options}, {}, what_);
  host_.check(table_.create(&accelerator_, options.data(), options.size()), what_ + ", create");
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
