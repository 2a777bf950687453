// An accelerator with its tables of kernels, as tests compare them: the plugin `cpu`, and `cuda` on the CPU.
#pragma once

#include "fake_host.hpp"
#include "plugin_file.hpp"

#include <cohort/api/accelerator.h>

namespace cohort::test {

class Side {
 public:
  static Side cpu();
  static Side cuda();
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  cohort_accelerator* a() { return &object_; }
  const cohort_accelerator_vt& vt() const { return *object_.vt; }
  const cohort_stream* stream() const { return &stream_; }
  std::string take_failure() { return host_.take_failure(); }

  const cohort_kernels_core_1& core() { return table<cohort_kernels_core_1>(COHORT_KERNELS_CORE_ID); }
  const cohort_kernels_minmax_uint8_1& codec() {
    return table<cohort_kernels_minmax_uint8_1>(COHORT_KERNELS_MINMAX_UINT8_ID);
  }
  const cohort_kernels_adam_1& adam() { return table<cohort_kernels_adam_1>(COHORT_KERNELS_ADAM_ID); }
  const cohort_kernels_ring_1& ring() { return table<cohort_kernels_ring_1>(COHORT_KERNELS_RING_ID); }

 private:
  FakeHost host_;
  cohort_accelerator object_;
  cohort_stream stream_;

  Side(const cohort_component& component, const std::vector<cohort_key_value>& options, void* native);
  template <class Table>
  const Table& table(const char* id) {
    return *static_cast<const Table*>(vt().kernels(a(), id));
  }
};

}  // namespace cohort::test
