#include "module/synchronized_layers.hpp"

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>

namespace cohort {

SynchronizedLayers::SynchronizedLayers(const Runtime& runtime, StepDriver& session) {
  if (!runtime.options().sync_batchnorm) return;
  if (runtime.selection().replicas > 1) {
    throw UserError("--sync-batchnorm: the replicas of strategy '" + runtime.selection().strategy.name +
                    "' have statistics of their own pieces; choose --strategy=ddp");
  }
  for (const auto& part : session.module().modules(/*include_self=*/false)) {
    if (auto layer = std::dynamic_pointer_cast<SyncBatchNormImpl>(part)) layers_.push_back(std::move(layer));
  }
  if (layers_.empty()) {
    throw UserError("--sync-batchnorm: module '" + session.module().name() +
                    "' has no cohort::SyncBatchNorm; write it in place of torch::nn::BatchNorm1d, 2d or 3d");
  }
  if (runtime.world_size() == 1) return;
  for (const auto& layer : layers_) layer->synchronize(&session);
}

SynchronizedLayers::~SynchronizedLayers() {
  for (const auto& layer : layers_) layer->synchronize(nullptr);
}

}  // namespace cohort
