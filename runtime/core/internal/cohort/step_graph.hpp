// Work of a device that is captured once and then replayed, without the code of the host that has enqueued it.
//
// While it captures, what the calling thread's current stream is given does not run, nor does what is ordered behind
// it; the host can look at no result. A replay has the same tensors, so whoever wants other inputs copies them in
// before. Who captures knows cohort/api/step_graph.h. One thread.
#pragma once

#include <functional>

#include <c10/core/Device.h>

#include <cohort/host/selection.hpp>

struct cohort_step_graphs;  // of cohort/api/step_graph.h

namespace cohort {

class StepGraph {
 public:
  /// Throws UserError if nothing captures work of such a device.
  StepGraph(const host::TorchDeviceType& type, c10::Device device);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Captures what a function enqueues, on a stream that is not the device's default one. Once. Throws UserError if
  /// something in it cannot be replayed.
  void capture(const std::function<void()>& work);
  /// Enqueues what was captured on the calling thread's current stream. Waits for nothing.
  void replay();

 private:
  const cohort_step_graphs* table_;
  c10::Device device_;
  void* graph_ = nullptr;
};

}  // namespace cohort
