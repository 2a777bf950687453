// The layers of a module that talk to the other ranks while a fit runs: --sync-batchnorm.
#pragma once

#include <memory>
#include <vector>

#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>
#include <cohort/sync_batch_norm.hpp>

namespace cohort {

class SynchronizedLayers {
 public:
  /// Until the end of the scope, if the flag is given. Throws UserError if no layer of the module can, or if this
  /// process has several replicas.
  SynchronizedLayers(const Runtime& runtime, StepDriver& session);
  ~SynchronizedLayers();
  SynchronizedLayers(const SynchronizedLayers&) = delete;
  SynchronizedLayers& operator=(const SynchronizedLayers&) = delete;

 private:
  std::vector<std::shared_ptr<SyncBatchNormImpl>> layers_;
};

}  // namespace cohort
