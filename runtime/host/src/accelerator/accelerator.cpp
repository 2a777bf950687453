#include "accelerator/accelerator.hpp"

#include <algorithm>

#include <cohort/host/option_table.hpp>

#include "given/given_struct.hpp"

namespace cohort::host {

Accelerator::Accelerator(const cohort_component& component, HostObject& host, const Options& given)
    : what_("accelerator '" + std::string(component.name) + "'"),
      host_(host),
      table_(sdk::own_copy(*static_cast<const cohort_accelerator_vt*>(component.vtable))),
      accelerator_{{sizeof(cohort_accelerator), 0, &table_, nullptr, host.get()}, *this},
      pinned_(std::in_place, accelerator_, host) {
  if (!table_.create) return;
  const CheckedOptions options = check_options({component.options, component.num_options}, given, what_);
  host_.check(table_.create(&accelerator_, options.data(), options.size()), what_ + ", create");
}

void Accelerator::take_kernels() {
  cpu_kernels_ = portable_kernels(get());
  kernels_.hosts = is_cpu() ? cpu_kernels_ : staged_kernels(get());
  const std::string lacking = put_own_kernels(kernels_, get(), what_);
  if (is_cpu() && !lacking.empty()) host_.log().info(what_ + " lacks kernels; the host's run instead: " + lacking);
}

const void* Accelerator::kernels(int32_t device_type, const char* id) {
  const bool is_own_device = device_type == this->device_type();
  if (is_own_kernels_id(id)) {
    if (is_own_device) return kernels_.all.find(id);
    return device_type == COHORT_DEVICE_CPU ? cpu_kernels_.find(id) : nullptr;
  }
  return is_own_device && table_.kernels ? table_.kernels(get(), id) : nullptr;
}

bool Accelerator::may_stage(std::string_view kernel) {
  if (!can_stage()) return false;
  const std::lock_guard lock(mutex_);
  if (staged_.contains(kernel)) return true;
  staged_.emplace(kernel);
  host_.log().info(what_ + " lacks the kernel " + std::string(kernel) +
                   ": it runs on the CPU, with copies through pinned memory");
  return true;
}

Accelerator::~Accelerator() {
  pinned_.reset();
  if (table_.destroy) table_.destroy(&accelerator_);
}

int Accelerator::count_devices() {
  int32_t count = 0;
  if (!table_.device_count) return 0;
  host_.check(table_.device_count(&accelerator_, &count), what_ + ", device_count");
  return std::max<int>(0, count);
}

void Accelerator::select(int index) {
  if (table_.select) host_.check(table_.select(&accelerator_, index), what_ + ", select");
}

cohort_device_info Accelerator::device_info(int index) {
  cohort_device_info info{};
  info.struct_size = sizeof info;
  if (!table_.device_info) return info;
  host_.check(table_.device_info(&accelerator_, index, &info), what_ + ", device_info");
  return info;
}

}  // namespace cohort::host
