// The files of the accelerator suite share the accelerator under test, with complete tables of kernels.
#pragma once

#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

#include "accelerator/accelerator.hpp"
#include "device.hpp"

namespace cohort::conformance {

/// The accelerator that the command line asks for, and how it is tried.
struct Arguments {
  Spec accelerator;
  host::PluginSearch search;
  bool completed = false;  // the accelerator's own kernels are left out
};

class Subject {
 public:
  explicit Subject(const Arguments& arguments);

  cohort_accelerator* accelerator() const { return accelerator_.get(); }
  const cohort_accelerator_vt& vt() const { return *accelerator_.get()->vt; }
  /// Returns the device whose memory kernels are given; null: they are given the host's.
  Device* device() const { return device_.get(); }
  /// Returns the stream that every kernel of the suite is enqueued on.
  const cohort_stream* stream() const { return &stream_; }
  const void* kernels(const char* id) const { return accelerator_.kernels(vt().device_type, id); }
  const cohort_kernels_core_1& core() const {
    return *static_cast<const cohort_kernels_core_1*>(kernels(COHORT_KERNELS_CORE_ID));
  }
  const cohort_kernels_minmax_uint8_1& codec() const {
    return *static_cast<const cohort_kernels_minmax_uint8_1*>(kernels(COHORT_KERNELS_MINMAX_UINT8_ID));
  }
  const cohort_kernels_adam_1& adam() const {
    return *static_cast<const cohort_kernels_adam_1*>(kernels(COHORT_KERNELS_ADAM_ID));
  }
  const cohort_kernels_ring_1& ring() const {
    return *static_cast<const cohort_kernels_ring_1*>(kernels(COHORT_KERNELS_RING_ID));
  }

 private:
  host::Log log_;
  host::HostObject host_;
  host::PluginHost plugins_;
  mutable host::Accelerator accelerator_;
  std::unique_ptr<Device> device_;
  cohort_stream stream_;
};

const Subject& subject();

}  // namespace cohort::conformance
